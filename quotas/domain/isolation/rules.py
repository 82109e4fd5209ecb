"""Isolation: which device modes may serve the pods of a tenant, and the reasons of denials.

The webhook checks once per pod, in memory, with cached facts:

    find_isolation_problem(
        policies=..., organization=..., project=..., work_kind=..., demands=..., offers=...,
        nodes=..., has_other_tenants=...,
    ) -> IsolationProblem | None

`policies` come from `quotas.selectors.admission.facts.isolation_policies()`. None lets the pod in.

A pod is admitted only when every way it may be served is allowed: the scheduler picks the node
after admission, so "perhaps" is "no". A MIG instance is a piece of hardware of its own. Under
time-slicing and MPS pods meet on one device, so two more things must hold there: the kind of work
allows it, and the pods that meet are of one organization, unless a policy says otherwise.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from metering.domain.catalogue.units import SharingMode
from quotas.domain.admission.values import Demand
from quotas.domain.isolation.policy import (
    MEETING_MODES,
    IsolationTerms,
    Policy,
    ServingMode,
    WorkKind,
    terms_for,
)

DEDICATED_LABEL: Final = "gpu-ledger.io/dedicated-to"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
ALTERNATIVES_MAX: Final = 8
_WORK_KINDS: Final = frozenset(WorkKind)
"""How many resources a refusal names; a person reads it."""


Selector = tuple[tuple[str, str], ...]
"""Node labels, as a pod's nodeSelector names them."""


@dataclass(frozen=True)
class ResourceOption:
    """One resource as some nodes of a cluster offer it.

    Attributes:
        resource: Raw resource name.
        mode: How the device is divided there.
        product: The nodes' product label; "" when they have none.
        dedicated_to: Slug of the organization the nodes are for; "" for everybody.
        nodes: Their names; empty when they are not known.
    """

    resource: str
    mode: SharingMode
    product: str = ""
    dedicated_to: str = ""
    nodes: frozenset[str] = frozenset()

    def is_within(self, nodes: Collection[str] | None) -> bool:
        """Whether a pod that may land on these nodes may get it; unknown nodes may be anywhere."""
        return nodes is None or not self.nodes or not self.nodes.isdisjoint(nodes)

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """Every node selector that leads to it: none, its product, its dedication, and both."""
        product: Selector = ((PRODUCT_LABEL, self.product),) if self.product else ()
        owner: Selector = ((DEDICATED_LABEL, self.dedicated_to),) if self.dedicated_to else ()
        return tuple(sorted({(), product, owner, owner + product}))


@dataclass(frozen=True)
class Alternative:
    """What would be allowed: a resource, and where only some of its nodes serve, which.

    Attributes:
        node_selector: Labels that lead there; empty when any node that offers it will do.
    """

    resource: str
    node_selector: Selector = ()

    def __str__(self) -> str:
        """Return it as a person would write it into a pod."""
        if not self.node_selector:
            return self.resource
        labels = ", ".join(f"{key}={value}" for key, value in self.node_selector)
        return f"{self.resource} with nodeSelector {labels}"


class IsolationCode(StrEnum):
    """Reason against the device mode that a pod requests."""

    WORK_KIND_UNKNOWN = "work_kind_unknown"
    MODE_NOT_ALLOWED = "sharing_mode_not_allowed"
    TENANTS_MEET = "tenants_would_meet"
    DEDICATED_TO_OTHERS = "dedicated_to_others"


@dataclass(frozen=True)
class IsolationProblem:
    """Why a pod is denied, and which resources would be admitted.

    Attributes:
        resource: The requested resource; "" when the label alone is wrong.
        mode: How that may be served, which is not allowed; "" as above.
        work_kind: What the pod is for; of a wrong label its text.
        policy: The policy that forbids it, as text.
        allowed_modes: What the policy allows, sorted.
        alternatives: Resources of this cluster that would be admitted; may be empty.
    """

    code: IsolationCode
    work_kind: str
    policy: str
    allowed_modes: tuple[str, ...]
    resource: str = ""
    mode: str = ""
    alternatives: tuple[Alternative, ...] = ()

    @property
    def message(self) -> str:
        """The refusal in one sentence."""
        if self.code is IsolationCode.WORK_KIND_UNKNOWN:
            return f"The work kind {self.work_kind!r} is not known."
        if self.code is IsolationCode.DEDICATED_TO_OTHERS:
            return f"{self.resource} is offered only on nodes that are dedicated to others."
        if self.code is IsolationCode.TENANTS_MEET:
            return (
                f"{self.resource} may be served by {self.mode} on a device that other "
                f"organizations use, which {self.policy} does not allow."
            )
        return (
            f"{self.resource} may be served by {self.mode}, which {self.policy} does not allow "
            f"(allowed: {', '.join(self.allowed_modes) or 'nothing'})."
        )

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.code is IsolationCode.WORK_KIND_UNKNOWN:
            return f"Use one of: {', '.join(kind.value for kind in WorkKind)}."
        if self.alternatives:
            return f"Ask for {' or '.join(str(one) for one in self.alternatives)}."
        return "This cluster offers nothing that is allowed: ask for a change of the policy."


def find_isolation_problem(  # noqa: PLR0913 - The facts of one question; all are keyword only.
    *,
    policies: Iterable[Policy],
    organization: str,
    project: str,
    work_kind: str,
    demands: Iterable[Demand],
    offers: Sequence[ResourceOption],
    nodes: Collection[str] | None = None,
    has_other_tenants: bool = True,
) -> IsolationProblem | None:
    """Return the first reason against the device mode that a pod requests; None for none.

    Args:
        policies: Every policy, or those of the organization.
        organization: Slug of the pod's organization.
        project: Slug of its project.
        work_kind: The pod's label as it stands; "" without one.
        demands: What it asks for. `sharing_modes` counts only where no offer knows the resource,
            as with device claims; where both are empty nothing can be judged here.
        offers: What the cluster offers.
        nodes: Where the pod may land; None for anywhere.
        has_other_tenants: Whether other organizations have namespaces on this cluster.
    """
    own = [policy for policy in policies if policy.organization == organization]
    if work_kind and work_kind not in _WORK_KINDS:
        return IsolationProblem(IsolationCode.WORK_KIND_UNKNOWN, work_kind, "", ())
    terms = terms_for(own, organization=organization, project=project, work_kind=work_kind)
    judge = _Judge(terms, organization=organization, has_other_tenants=has_other_tenants)
    found = (judge.problem_of(demand, offers=offers, nodes=nodes) for demand in demands)
    return next((problem for problem in found if problem is not None), None)


@dataclass(frozen=True)
class _Judge:
    """The terms of one pod, held against offers."""

    terms: IsolationTerms
    organization: str
    has_other_tenants: bool

    def problem_of(
        self, demand: Demand, *, offers: Sequence[ResourceOption], nodes: Collection[str] | None
    ) -> IsolationProblem | None:
        """Return what is wrong with one demand, the same whatever the order of the offers."""
        ways = [offer for offer in offers if offer.resource == demand.resource]
        ways = ways or _ways(demand, organization=self.organization)
        reach = [offer for offer in ways if offer.is_within(nodes)]
        # Taints keep a pod off other tenants' nodes; a pod that fits other nodes is not checked
        # against them.
        faults = [self.fault_of(offer) for offer in self._open(reach) or reach]
        worst = min((fault for fault in faults if fault is not None), default=None)
        return None if worst is None else self._problem(worst, demand, offers=offers)

    def fault_of(self, offer: ResourceOption) -> tuple[IsolationCode, str] | None:
        """Return why an offer may not serve the pod, and its mode; None when it may."""
        is_own = offer.dedicated_to == self.organization
        if offer.dedicated_to and not is_own:
            return IsolationCode.DEDICATED_TO_OTHERS, offer.mode.value
        mode = ServingMode(offer.mode.value)
        ways = {mode, ServingMode.DEDICATED} if is_own and mode is ServingMode.WHOLE else {mode}
        if self.terms.modes.isdisjoint(ways):
            return IsolationCode.MODE_NOT_ALLOWED, mode.value
        if mode in MEETING_MODES and not is_own and self._meets_strangers:
            return IsolationCode.TENANTS_MEET, mode.value
        return None

    @property
    def _meets_strangers(self) -> bool:
        return self.has_other_tenants and not self.terms.allow_shared_with_other_tenants

    def _open(self, offers: Sequence[ResourceOption]) -> list[ResourceOption]:
        return [offer for offer in offers if offer.dedicated_to in {"", self.organization}]

    def _problem(
        self, fault: tuple[IsolationCode, str], demand: Demand, *, offers: Sequence[ResourceOption]
    ) -> IsolationProblem:
        code, mode = fault
        return IsolationProblem(
            code=code,
            work_kind=self.terms.work_kind.value,
            policy=self.terms.policy,
            allowed_modes=tuple(sorted(self.terms.modes)),
            resource=demand.resource,
            mode=mode,
            alternatives=self._alternatives(self._open(offers)),
        )

    def _alternatives(self, offers: Sequence[ResourceOption]) -> tuple[Alternative, ...]:
        by_resource: dict[str, list[ResourceOption]] = {}
        for offer in offers:
            by_resource.setdefault(offer.resource, []).append(offer)
        found = [
            Alternative(resource, selector)
            for resource, same in sorted(by_resource.items())
            for selector in self._selectors(same)
        ]
        return tuple(found[:ALTERNATIVES_MAX])

    def _selectors(self, same: Sequence[ResourceOption]) -> list[Selector]:
        """Return the shortest node selectors under which every offer of a resource is allowed."""
        places: dict[Selector, list[ResourceOption]] = {}
        for offer in same:
            for selector in offer.selectors:
                places.setdefault(selector, []).append(offer)
        sound = [
            selector
            for selector, offers in places.items()
            if all(self.fault_of(offer) is None for offer in offers)
        ]
        shortest = min((len(selector) for selector in sound), default=0)
        return sorted(selector for selector in sound if len(selector) == shortest)


def _ways(demand: Demand, *, organization: str) -> list[ResourceOption]:
    """Return offers built from the demand itself, for a resource that no node offers by name."""
    return [
        ResourceOption(demand.resource, SharingMode.WHOLE, dedicated_to=organization)
        if mode == ServingMode.DEDICATED
        else ResourceOption(demand.resource, SharingMode(mode))
        for mode in demand.sharing_modes
    ]
