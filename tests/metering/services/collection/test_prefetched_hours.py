"""A backlog's hours of one cluster are observed together, and collected and sealed one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from metering.domain.collection.windows import WINDOW, GapPolicy, MeteringPolicy
from metering.models import MeteringWindow, UsageRecord
from metering.protocols import ClusterTarget, Observation, ObservedSpan, UsageSource
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_next
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    ended_pod,
    moment,
    observation,
)

pytestmark = pytest.mark.django_db

HOURS = 8
AT = moment(3600 + LATER) + (HOURS - 1) * WINDOW
SEALED = ("sealed", 1, 0, "")
RELEASED = ("open", 1, 0, "")
UNTOUCHED = ("open", 0, 0, "")


@dataclass
class TogetherSource(ReplayedSource):
    """A source that can observe hours together.

    Attributes:
        refuses: Reason for which it does not; "" while it does, "a mistake" to crash.
        away_at: An hour that even the prefetched source cannot be asked about.
        prefetched: The hours of each attempt.
    """

    refuses: str = ""
    away_at: datetime | None = None
    prefetched: list[list[ObservedSpan]] = field(default_factory=list)

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        """Return another source; see protocols.UsageSource."""
        del target
        self.prefetched.append(list(spans))
        if self.refuses == "a mistake":
            raise KeyError("uid")
        if self.refuses:
            raise SourceUnavailableError("Not together.", reason=self.refuses)
        return TogetherSource(self.seen, asked=self.asked, away_at=self.away_at)

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return what was seen of the hour; see protocols.UsageSource."""
        self.down = "unreachable" if start_at == self.away_at else self.down
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)


def backlog(slug: str = "hopper") -> Cluster:
    """Open eight hours of a cluster."""
    cluster = make_cluster(slug, metered_from=HOUR)
    open_due_windows(at=AT)
    return cluster


def metering(source: TogetherSource, *, hours_together_max: int = 6) -> Worker:
    return Worker("worker-1", source, ACTOR, MeteringPolicy(hours_together_max=hours_together_max))


def states() -> list[tuple[str, int, int, str]]:
    """Return state, fence, attempt and lease of each window."""
    rows = MeteringWindow.objects.order_by("start_at")
    return list(rows.values_list("state", "fence", "attempt", "lease_owner"))


def asked_hours(source: ReplayedSource) -> list[int]:
    return [(start_at - HOUR) // WINDOW for start_at, _ in source.asked]


def test_six_hours_of_a_backlog_are_asked_together_and_each_is_sealed() -> None:
    cluster = backlog()
    bind(cluster, "team-nlp", make_project(make_organization()))
    source = TogetherSource({HOUR: observation(ended_pod("uid-1", 0, 1800))})

    swept = meter_next(worker=metering(source), at=AT)

    assert swept == CollectionSweep(sealed=6)
    assert states() == [SEALED] * 6 + [UNTOUCHED] * 2
    [spans] = source.prefetched
    assert [(span.start_at, span.as_of) for span in spans] == source.asked
    assert [span.as_of - span.end_at for span in spans] == [timedelta(seconds=LATER)] * 6
    assert UsageRecord.objects.get().unit_seconds == 1800
    assert meter_next(worker=metering(source), at=AT) == CollectionSweep(sealed=2)


def test_an_hour_without_a_backlog_is_asked_alone() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=moment(3600 + LATER))
    source = TogetherSource()

    assert meter_next(worker=metering(source), at=AT) == CollectionSweep(sealed=1)
    assert source.prefetched == []


def test_hours_of_two_clusters_are_not_mixed() -> None:
    backlog("a")
    backlog("b")
    source = TogetherSource()

    meter_next(worker=metering(source), at=AT)

    sealed = MeteringWindow.objects.filter(state="sealed")
    assert sealed.values_list("cluster_id").distinct().count() == 1
    assert len(asked_hours(source)) == 6


def test_two_workers_take_different_hours() -> None:
    backlog()

    first = claim_windows(worker="one", limit=1, alone=(), at=AT)
    second = claim_windows(worker="two", limit=1, alone=(), at=AT)

    assert [(one.start_at - HOUR) // WINDOW for one in first] == [0, 1, 2, 3, 4, 5]
    assert [(one.start_at - HOUR) // WINDOW for one in second] == [6, 7]


@pytest.mark.parametrize(
    "tried",
    [
        {"attempt": 1},
        {"failures": 1},
        {"gap_policy": GapPolicy.HOLD},
        {"accepts_low_coverage": True},
        {"state": "gap"},
    ],
)
def test_an_hour_that_was_tried_or_decided_on_is_asked_alone(tried: dict[str, object]) -> None:
    backlog()
    third = MeteringWindow.objects.filter(start_at=HOUR + 2 * WINDOW)
    third.update(**tried)
    source = TogetherSource()

    meter_next(worker=metering(source), at=AT)

    [spans] = source.prefetched
    assert [(span.start_at - HOUR) // WINDOW for span in spans] == [0, 1, 3, 4, 5]


def test_hours_whose_worker_died_are_asked_alone() -> None:
    backlog()
    claim_windows(worker="dead", limit=1, alone=(), at=AT, policy=MeteringPolicy(lease_seconds=-1))

    [again] = claim_windows(worker="alive", limit=1, alone=(), at=AT)

    assert (again.start_at, again.fence, again.attempt) == (HOUR, 2, 2)


@pytest.mark.parametrize(("records", "hours"), [(5_000, 6), (7_500, 4), (15_001, 1), (90_000, 1)])
def test_the_hour_before_says_how_many_are_asked_together(records: int, hours: int) -> None:
    backlog()
    MeteringWindow.objects.filter(start_at=HOUR).update(state="reconciled", record_count=records)

    claimed = claim_windows(worker="w", limit=1, alone=(), at=AT)

    assert [(one.start_at - HOUR) // WINDOW for one in claimed] == list(range(1, 1 + hours))


@pytest.mark.parametrize("refuses", ["query_refused", "too_large", "a mistake"])
def test_where_hours_cannot_be_asked_together_each_is_asked_alone(refuses: str) -> None:
    backlog()
    source = TogetherSource(refuses=refuses)
    worker = metering(source)

    assert meter_next(worker=worker, at=AT) == CollectionSweep(sealed=1)

    assert states() == [SEALED] + [RELEASED] * 5 + [UNTOUCHED] * 2
    assert asked_hours(source) == [0]
    assert crashes_by_event() == ({"metering.prefetch.failed": 1} if refuses == "a mistake" else {})


def test_a_cluster_that_refuses_hours_together_is_not_asked_so_again_for_a_while() -> None:
    backlog()
    source = TogetherSource(refuses="query_refused")
    worker = metering(source)

    swept = [meter_next(worker=worker, at=AT) for _ in range(3)]
    source.refuses = ""
    later = meter_next(worker=worker, at=AT + timedelta(minutes=1))

    assert swept == [CollectionSweep(sealed=1)] * 3
    assert len(source.prefetched) == 2
    assert later == CollectionSweep(sealed=5)
    assert {state for state, *_ in states()} == {"sealed"}


def test_a_source_that_is_away_costs_one_attempt_for_all_hours() -> None:
    backlog()
    source = TogetherSource(refuses="unreachable", down="unreachable")

    assert meter_next(worker=metering(source), at=AT) == CollectionSweep(retried=1)

    assert asked_hours(source) == [0]
    rows = MeteringWindow.objects.order_by("start_at")
    assert list(rows.values_list("failures", flat=True)) == [1] + [0] * 7
    assert not rows.filter(not_before__lte=AT).exists()


def test_hours_that_follow_one_whose_source_was_away_are_released() -> None:
    backlog()
    source = TogetherSource(away_at=HOUR + 2 * WINDOW)

    assert meter_next(worker=metering(source), at=AT) == CollectionSweep(sealed=2, retried=1)

    assert states() == [SEALED] * 2 + [RELEASED] * 4 + [UNTOUCHED] * 2


def test_the_policy_can_have_each_hour_asked_alone() -> None:
    backlog()
    source = TogetherSource()

    meter_next(worker=metering(source, hours_together_max=1), at=AT)

    assert states() == [SEALED] + [UNTOUCHED] * 7
    assert source.prefetched == []
