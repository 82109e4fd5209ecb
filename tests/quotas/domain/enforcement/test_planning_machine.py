"""Planning while messages are late, lost or overtaken: the limit is never admitted twice."""

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.division import ClusterNamespace
from quotas.domain.enforcement.planning import (
    CapFacts,
    GrantedLimit,
    PlaceFacts,
    ceiling_of,
    plan_quotas,
)
from quotas.domain.limits.selectors import LimitSelector

ACME, LLM = UUID(int=1), UUID(int=11)
RESOURCE, KEY = "nvidia.com/gpu", "requests.nvidia.com/gpu"
PLACES = tuple(ClusterNamespace("hopper", name) for name in "abcd")
CHOICES = st.sampled_from(PLACES)
UNITS = st.integers(min_value=0, max_value=12)


class PlanningMachine(RuleBasedStateMachine):
    """One project's limit over four namespaces, and a cluster that answers when it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 8
        self.allowed = 8
        self.is_counted = False
        self.used = dict.fromkeys(PLACES, 0)
        self.desired: dict[ClusterNamespace, dict[str, int]] = {}
        self.ceiling: dict[ClusterNamespace, dict[str, int]] = {place: {} for place in PLACES}
        self.said: dict[ClusterNamespace, int] = dict.fromkeys(PLACES, 0)
        self.sent: dict[ClusterNamespace, list[int]] = {place: [] for place in PLACES}

    @rule(units=UNITS)
    def change_the_limit(self, units: int) -> None:
        self.limit = units
        self.allowed = max(units, sum(self.most(place) for place in PLACES))

    @rule(place=CHOICES, units=UNITS)
    def use(self, place: ClusterNamespace, units: int) -> None:
        self.used[place] = units

    @rule()
    def count_or_stop(self) -> None:
        """Admission begins to count every pod, or stops."""
        self.is_counted = not self.is_counted

    @rule()
    def plan(self) -> None:
        facts = [
            PlaceFacts(
                place=place,
                project_id=LLM,
                organization_id=ACME,
                offered=(RESOURCE,),
                sizes={RESOURCE: GPUSize.LARGE},
                nominal=CapFacts(
                    used={(GPUSize.LARGE, "H100"): self.used[place]},
                    desired=self.desired.get(place),
                    ceiling=self.ceiling[place],
                ),
                is_counted=self.is_counted,
            )
            for place in PLACES
        ]
        limits = [GrantedLimit(ACME, LLM, LimitSelector(GPUSize.LARGE), self.limit)]
        for place, quota in plan_quotas(facts, limits).items():
            hard = quota.hard
            self.ceiling[place] = ceiling_of(self.ceiling[place], hard)
            self.desired[place] = hard
        if self.is_counted:
            # The limit is held by admission then; quotas hold it in each namespace.
            assert {quota[KEY] for quota in self.desired.values()} == {self.limit}
            self.allowed = max(self.limit, sum(self.most(place) for place in PLACES))

    @precondition(lambda self: self.desired)
    @rule(place=CHOICES)
    def send(self, place: ClusterNamespace) -> None:
        self.sent[place].append(self.desired[place][KEY])

    @rule(place=CHOICES)
    def arrive(self, place: ClusterNamespace) -> None:
        """The cluster takes the newest of what was sent; older ones are refused as stale."""
        if self.sent[place]:
            self.said[place] = self.sent[place][-1]
            self.sent[place] = []

    @rule(place=CHOICES)
    def read_back(self, place: ClusterNamespace) -> None:
        """Nothing is under way and the cluster says what is desired: the ceiling comes down."""
        desired = self.desired.get(place)
        if desired and not self.sent[place] and self.said[place] == desired[KEY]:
            self.ceiling[place] = dict(desired)

    def most(self, place: ClusterNamespace) -> int:
        return self.ceiling[place].get(KEY, 0)

    @invariant()
    def the_cluster_never_says_more_than_the_ledger_thinks_possible(self) -> None:
        assert all(self.said[place] <= self.most(place) for place in PLACES)

    @invariant()
    def the_limit_is_admitted_once(self) -> None:
        possible = sum(self.most(place) for place in PLACES)
        assert possible <= self.allowed
        self.allowed = max(self.limit, possible)

    def teardown(self) -> None:
        """Once messages arrive again, the limit is whole where it is counted, then divided."""
        self.is_counted = True
        self.settle()
        assert set(self.said.values()) == {self.limit}
        self.is_counted = False
        self.settle()
        assert sum(self.said.values()) == self.limit

    def settle(self) -> None:
        for _ in range(4):
            self.plan()
            for place in PLACES:
                self.send(place)
                self.arrive(place)
                self.read_back(place)
            self.the_limit_is_admitted_once()


TestPlanning = PlanningMachine.TestCase
TestPlanning.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
