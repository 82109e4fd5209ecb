"""Composing a window: from one observation to the rows that will be written, without writing any.

Each pod's life is clipped to the window, its request made effective, its hardware looked up in the
ledger or settled by the catalogue, and its namespace attributed. What fails on the way becomes a
finding that holds the unit-seconds; nothing is guessed and nothing is dropped.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from metering.domain.attribution import Directory, Tenant, owner_of, tenant_at
from metering.domain.catalogue import Catalogue, Sized, Unsized
from metering.domain.devices import Activity
from metering.domain.effective_request import effective_units
from metering.domain.exceptions import Finding
from metering.domain.measurement import is_believable, unit_seconds
from metering.domain.resource_names import sanitise
from metering.domain.timeline import EndKind, Interval, Life, clip, life_of
from metering.protocols import ContainerRequest, Observation, PodObservation
from metering.selectors.allocations import AllocationFact, AllocationKey
from metering.services.balancing import CapacityRow, NodeUse, balance_nodes
from metering.services.device_composition import DeviceRow, measure_devices
from metering.services.findings import (
    changed_request,
    invalid_request,
    unbound,
    uncertain_end,
    unsized,
)
from metering.services.sizing import Sizer

SIZING_LABELS = ("nvidia_com_gpu_", "nvidia_com_mig_")
"""Beginnings of the node labels that are kept with an allocation, as what settled its size."""


@dataclass(frozen=True)
class WindowInput:
    """Everything a window is composed from.

    Attributes:
        known: What the ledger knows of the pods seen, by uid and sanitised resource.
    """

    observation: Observation
    scrape_interval_seconds: int
    directory: Directory
    catalogue: Catalogue
    known: Mapping[AllocationKey, AllocationFact]


@dataclass(frozen=True)
class UsageRow:
    """One usage record before it is written."""

    fact: AllocationFact
    tenant: Tenant
    interval: Interval
    activity: Activity = field(default_factory=Activity)

    @property
    def owner(self) -> str:
        """Return the owning user's name, from whoever the namespace belonged to at the begin."""
        return owner_of(label=self.fact.owner, default_owner=self.tenant.default_owner)

    @property
    def unit_seconds(self) -> int:
        """Return what is billed."""
        return unit_seconds(units=self.fact.units, seconds=self.interval.seconds)


@dataclass(frozen=True)
class NewAllocation:
    """An allocation seen for the first time."""

    fact: AllocationFact
    priority_class: str
    node_labels: Mapping[str, str]
    life: Life
    last_seen_at: datetime


@dataclass(frozen=True)
class SeenAgain:
    """A later sight of an allocation the ledger knows."""

    fact: AllocationFact
    life: Life
    last_seen_at: datetime


@dataclass
class Composed:
    """The rows of one window, in the order of the observation."""

    usage: list[UsageRow] = field(default_factory=list)
    new_allocations: list[NewAllocation] = field(default_factory=list)
    seen_again: list[SeenAgain] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    capacity: list[CapacityRow] = field(default_factory=list)
    held: list[NodeUse] = field(default_factory=list)
    devices: list[DeviceRow] = field(default_factory=list)


@dataclass(frozen=True)
class _Stay:
    """One pod inside the window; `interval` is None when it holds nothing there."""

    pod: PodObservation
    life: Life
    interval: Interval | None


def compose_window(given: WindowInput) -> Composed:
    """Return the rows of one window."""
    composed = Composed()
    sizer = Sizer(given.catalogue, observation=given.observation)
    for pod in given.observation.pods:
        stay = _stay_of(pod, given=given)
        if stay is not None:
            for resource, asks in _by_resource(pod).items():
                _compose_resource(
                    stay, resource=resource, asks=asks, given=given, sizer=sizer, into=composed
                )
    composed.usage, composed.devices = measure_devices(
        composed.usage, observation=given.observation, sizer=sizer
    )
    used = [_use_of(row) for row in composed.usage]
    composed.capacity, findings = balance_nodes(
        given.observation,
        billed=used,
        held=composed.held,
        sizer=sizer,
        scrape_interval_seconds=given.scrape_interval_seconds,
    )
    composed.findings += findings
    return composed


def _stay_of(pod: PodObservation, *, given: WindowInput) -> _Stay | None:
    seen = given.observation
    life = life_of(pod, ticks=seen.ticks, scrape_interval_seconds=given.scrape_interval_seconds)
    if life is None:
        return None
    return _Stay(
        pod=pod, life=life, interval=clip(life, start_at=seen.start_at, end_at=seen.end_at)
    )


def _by_resource(pod: PodObservation) -> Mapping[str, Sequence[ContainerRequest]]:
    grouped: dict[str, list[ContainerRequest]] = defaultdict(list)
    for request in pod.requests:
        grouped[sanitise(request.resource)].append(request)
    return grouped


def _compose_resource(
    stay: _Stay,
    *,
    resource: str,
    asks: Sequence[ContainerRequest],
    given: WindowInput,
    sizer: Sizer,
    into: Composed,
) -> None:
    units = effective_units(asks)
    known = given.known.get((stay.pod.uid, resource))
    if known is not None:
        into.seen_again.append(SeenAgain(known, stay.life, stay.pod.last_seen_at))
    if stay.interval is None or units == 0:
        return
    settled = known or sizer.size(resource, node=stay.pod.node, labels=stay.pod.node_labels)
    if not is_believable(units, is_sized=not isinstance(settled, Unsized)):
        into.findings.append(invalid_request(stay.pod, resource=resource, units=units))
        return
    if known is not None and known.units != units:
        into.findings.append(changed_request(stay.pod, known=known, units=units))
    _compose_settled(stay, resource=resource, units=units, settled=settled, given=given, into=into)


def _compose_settled(
    stay: _Stay,
    *,
    resource: str,
    units: int,
    settled: AllocationFact | Sized | Unsized,
    given: WindowInput,
    into: Composed,
) -> None:
    assert stay.interval is not None  # noqa: S101 - The caller's branch; tells the type.
    if isinstance(settled, Unsized):
        use = _held_use(stay, resource=resource, units=units)
        into.held.append(use)
        into.findings.append(unsized(stay.pod, use=use, cause=settled.cause))
        return
    tenant = tenant_at(given.directory, namespace=stay.pod.namespace, moment=stay.interval.begin_at)
    if tenant is None:
        use = _held_use(stay, resource=resource, units=units)
        into.held.append(use)
        into.findings.append(unbound(stay.pod, use=use))
        return
    if isinstance(settled, Sized):
        settled = _first_sight(stay, sized=settled, units=units, into=into)
    row = UsageRow(fact=settled, tenant=tenant, interval=stay.interval)
    into.usage.append(row)
    if stay.interval.end_kind is EndKind.VANISHED_IN_GAP:
        into.findings.append(uncertain_end(row.fact, interval=row.interval))


def _first_sight(stay: _Stay, *, sized: Sized, units: int, into: Composed) -> AllocationFact:
    pod = stay.pod
    fact = AllocationFact(
        pod_uid=pod.uid,
        resource=sized.resource,
        namespace=pod.namespace,
        pod_name=pod.name,
        node=pod.node,
        owner=pod.owner,
        units=units,
        size=sized.size.value,
        price_group=sized.price_group,
        sharing_mode=sized.sharing_mode.value,
        product=sized.product,
        share_numerator=sized.share.numerator,
        share_denominator=sized.share.denominator,
        catalogue_version=sized.catalogue_version,
        begin_at=stay.life.begin_at,
    )
    labels = {
        key: text
        for key, text in sorted(pod.node_labels.items())
        if sanitise(key).removeprefix("label_").startswith(SIZING_LABELS)
    }
    into.new_allocations.append(
        NewAllocation(fact, pod.priority_class, labels, stay.life, pod.last_seen_at)
    )
    return fact


def _held_use(stay: _Stay, *, resource: str, units: int) -> NodeUse:
    assert stay.interval is not None  # noqa: S101 - The caller's branch; tells the type.
    return NodeUse(
        node=stay.pod.node,
        resource=resource,
        units=units,
        unit_seconds=unit_seconds(units=units, seconds=stay.interval.seconds),
        slack_seconds=stay.interval.slack_seconds,
    )


def _use_of(row: UsageRow) -> NodeUse:
    return NodeUse(
        node=row.fact.node,
        resource=sanitise(row.fact.resource),
        units=row.fact.units,
        unit_seconds=row.unit_seconds,
        slack_seconds=row.interval.slack_seconds,
    )
