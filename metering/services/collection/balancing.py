"""Balancing nodes: the size of what each offered, and how much of that was in use."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.conf import settings
from msgspec import structs

from metering.domain.allocations.claims import offered_resource, record_resource
from metering.domain.allocations.timeline import EndKind, Interval, seconds_between, whole_second
from metering.domain.catalogue.sizing import Catalogue, Sized, Unsized, size_of
from metering.domain.catalogue.units import CLAIM_PREFIX, group_of, resource_of, sanitise
from metering.domain.collection.capacity import Balance, ObservedCapacity, balance_of, blind_seconds
from metering.domain.collection.claim_split import NOBODY, ClaimPart, Use, split_claim
from metering.domain.corrections.exceptions import ExceptionKind, Finding, node_subject
from metering.protocols import Observation
from metering.selectors.allocations.ledger import ClaimUse, NodeFact
from metering.selectors.allocations.rows import AllocationFact
from metering.services.collection.composed import (
    CapacityRow,
    NodeUse,
    Place,
    PlaceUse,
    UsageRow,
    WindowInput,
)


@dataclass(frozen=True)
class NodeCapacity:
    """One node's one resource.

    Attributes:
        units: The most it offered at once.
        unit_seconds: Units x the seconds in which it was observed to offer them, or in which
            nothing was observed.
    """

    units: int
    unit_seconds: int


@dataclass(frozen=True)
class Offers:
    """What the nodes of a cluster offered in one window.

    Attributes:
        labels: By node, as last seen.
    """

    window_seconds: int
    by_place: Mapping[Place, NodeCapacity] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def offers_of(given: WindowInput) -> Offers:
    """Return what the nodes offered: of two sources the one that saw more of it.

    A node that one source saw too late or too short was there all the same when the other saw it.
    """
    sources = [_from_scrapes(given), _from_records(given)]
    places = {place for source in sources for place in source}
    labels: dict[str, Mapping[str, str]] = {
        record.node: record.labels for record in given.ledger.nodes
    }
    if given.observation is not None:
        labels |= {node.node: node.labels for node in given.observation.nodes}
    return Offers(
        window_seconds=seconds_between(given.hour.start_at, given.hour.end_at),
        by_place={place: _larger(place, sources=sources) for place in sorted(places)},
        labels=labels,
    )


def _larger(place: Place, *, sources: list[Mapping[Place, NodeCapacity]]) -> NodeCapacity:
    found = [source[place] for source in sources if place in source]
    return NodeCapacity(
        units=max(offer.units for offer in found),
        unit_seconds=max(offer.unit_seconds for offer in found),
    )


def _from_scrapes(given: WindowInput) -> Mapping[Place, NodeCapacity]:
    seen = given.observation
    if seen is None:
        return {}
    hour = given.hour
    window_seconds = seconds_between(hour.start_at, hour.end_at)
    unseen_seconds = {
        targets: blind_seconds(
            given.scrapes.ticks_for(targets),
            start_at=hour.start_at,
            end_at=hour.end_at,
            scrape_interval_seconds=given.scrape_interval_seconds,
        )
        for targets in {node.targets for node in seen.nodes}
    }
    return {
        (node.node, resource): NodeCapacity(
            units,
            node.offered_unit_seconds.get(resource, units * node.covered_seconds)
            + units
            * min(unseen_seconds[node.targets], max(0, window_seconds - node.covered_seconds)),
        )
        for node in seen.nodes
        for resource, units in node.allocatable.items()
        if units > 0
    }


def _from_records(given: WindowInput) -> Mapping[Place, NodeCapacity]:
    units: dict[Place, int] = defaultdict(int)
    unit_seconds: dict[Place, int] = defaultdict(int)
    for record in given.ledger.nodes:
        seconds = _seconds_inside(record, given=given)
        for resource, offered in record.allocatable.items():
            if offered > 0 and seconds > 0:
                place = record.node, _offered_as(resource)
                units[place] = max(units[place], offered)
                unit_seconds[place] += offered * seconds
    return {place: NodeCapacity(units[place], unit_seconds[place]) for place in units}


def _seconds_inside(record: NodeFact, *, given: WindowInput) -> int:
    until = min(record.end_at or given.hour.end_at, given.hour.end_at)
    return seconds_between(max(record.begin_at, given.hour.start_at), until)


def _offered_as(resource: str) -> str:
    return resource if resource.startswith(CLAIM_PREFIX) else sanitise(resource)


class Sizer:
    """The catalogue in force, with the models each node's devices name in an observation."""

    def __init__(self, catalogue: Catalogue, *, observation: Observation | None) -> None:
        """Start with an empty cache; the observation must outlive the sizer."""
        self._catalogue = catalogue
        self._models = observation.device_models if observation else {}
        self._known: dict[tuple[str, str, int], Sized | Unsized] = {}
        self._by_content: dict[tuple[object, ...], Sized | Unsized] = {}

    def size(self, resource: str, *, node: str, labels: Mapping[str, str]) -> Sized | Unsized:
        """Return what one unit of a resource is on a node with these labels; see `size_of`.

        Labels are compared by identity first, since sources share one mapping among the pods of a
        node; and nodes with the same labels and models are of one kind.
        """
        key = (resource, node, id(labels))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._size_of(resource, node=node, labels=labels)
        return found

    def _size_of(self, resource: str, *, node: str, labels: Mapping[str, str]) -> Sized | Unsized:
        models = self._models.get(node, frozenset())
        content = (resource, models, frozenset(labels.items()))
        found = self._by_content.get(content)
        if found is None:
            found = self._by_content[content] = size_of(
                self._catalogue, resource=resource, labels=labels, device_models=models
            )
        return found


def sized_for(sized: Sized, *, priority_class: str) -> Sized:
    """Return what a pod of a priority class holds: preemptible pods have their own group."""
    group = group_of(
        sized.price_group,
        priority_class=priority_class,
        burst_classes=settings.BURST_PRIORITY_CLASSES,
    )
    return replace(sized, price_group=group)


NO_LABELS: Mapping[str, str] = {}


_NOTHING = NodeCapacity(units=0, unit_seconds=0)
_UNUSED = PlaceUse()


def places_of(usage: Iterable[UsageRow], held: Iterable[NodeUse]) -> dict[Place, PlaceUse]:
    """Return what is billed and held, added up."""
    places: dict[Place, PlaceUse] = defaultdict(PlaceUse)
    for row in usage:
        place = places[place_of(row)]
        place.billed_unit_seconds += row.unit_seconds
        _note_certain(place, units=row.fact.units, slack_seconds=row.interval.slack_seconds)
    for use in held:
        place = places[use.node, use.resource]
        if use.is_disputed:
            place.disputed_unit_seconds += use.unit_seconds
        else:
            place.held_unit_seconds += use.unit_seconds
            _note_certain(place, units=use.units, slack_seconds=use.slack_seconds)
    return dict(places)


def place_of(row: UsageRow) -> Place:
    """Return what of which node a usage record is of."""
    return row.fact.node, row.offered_as or sanitise(row.fact.resource)


def _note_certain(place: PlaceUse, *, units: int, slack_seconds: int) -> None:
    place.slack_unit_seconds += units * slack_seconds
    place.units_in_use_max = max(place.units_in_use_max, units)


def balance_nodes(
    offers: Offers,
    *,
    uses: Mapping[Place, PlaceUse],
    sizer: Sizer,
    scrape_interval_seconds: int,
) -> tuple[list[CapacityRow], list[Finding]]:
    """Return one row per node and resource, by name, and what does not add up."""
    rows, findings = [], []
    for place in sorted({*offers.by_place, *uses}):
        offer = _offer_of(offers.by_place.get(place, _NOTHING), use=uses.get(place, _UNUSED))
        balance = balance_of(
            offer,
            scrape_interval_seconds=scrape_interval_seconds,
            window_seconds=offers.window_seconds,
        )
        labels = offers.labels.get(place[0], NO_LABELS)
        sized = sizer.size(place[1], node=place[0], labels=labels)
        row = _row_of(place, offer=offer, balance=balance, sized=sized)
        rows.append(row)
        finding = _excess(row, offer=offer)
        findings += [finding] if finding else []
    return rows, findings


def _offer_of(seen: NodeCapacity, *, use: PlaceUse) -> ObservedCapacity:
    return ObservedCapacity(
        allocatable_units=seen.units,
        offered_unit_seconds=seen.unit_seconds,
        billed_unit_seconds=use.billed_unit_seconds,
        held_unit_seconds=use.held_unit_seconds,
        disputed_unit_seconds=use.disputed_unit_seconds,
        slack_unit_seconds=use.slack_unit_seconds,
        units_in_use_max=use.units_in_use_max,
    )


def _row_of(
    place: Place, *, offer: ObservedCapacity, balance: Balance, sized: Sized | Unsized
) -> CapacityRow:
    name = resource_of(place[1])
    known = sized if isinstance(sized, Sized) else None
    return CapacityRow(
        node=place[0],
        resource=name.raw if name else place[1],
        size=known.size.value if known else "",
        price_group=known.price_group if known else "",
        sharing_mode=known.sharing_mode.value if known else "",
        share_numerator=known.share.numerator if known else 1,
        share_denominator=known.share.denominator if known else 1,
        allocatable_units=offer.allocatable_units,
        billed_unit_seconds=offer.billed_unit_seconds,
        balance=balance,
    )


def _excess(row: CapacityRow, *, offer: ObservedCapacity) -> Finding | None:
    # The devices a claim may request are in ResourceSlices, which not every watch has permission to
    # read.
    if row.balance.is_unseen and not row.resource.startswith(CLAIM_PREFIX):
        return Finding(
            kind=ExceptionKind.UNKNOWN_NODE,
            subject=node_subject(node=row.node, resource=row.resource),
            summary=f"Pods held {row.resource} on {row.node}, which was not seen to offer any.",
            details={"node": row.node, "resource": row.resource},
        )
    if row.balance.is_over_capacity:
        used = offer.billed_unit_seconds + offer.held_unit_seconds
        capacity = row.balance.capacity_unit_seconds
        return Finding(
            kind=ExceptionKind.OVER_CAPACITY,
            subject=node_subject(node=row.node, resource=row.resource),
            summary=(
                f"Pods used {used} unit-seconds of {row.resource} on {row.node}, "
                f"{used - capacity} more than the {capacity} it was reported to offer."
            ),
            details={
                "node": row.node,
                "resource": row.resource,
                "used_unit_seconds": used,
                "capacity_unit_seconds": capacity,
            },
        )
    return None


def is_claim(fact: AllocationFact) -> bool:
    """Whether an allocation is a device claim's rather than a pod's."""
    return fact.resource.startswith(CLAIM_PREFIX)


def claim_rows(row: UsageRow, *, consumers: Sequence[ClaimUse]) -> list[UsageRow]:
    """Return the usage records of a claim's allocation, which add up to what it held.

    One per pod it was reserved for, and one of the claim itself for unused time; all have the claim
    and its class as their resource.

    Args:
        row: What the claim held.
        consumers: The pods it was reserved for.
    """
    claim = row.fact
    named = record_resource(claim_uid=claim.pod_uid, resource=claim.resource)
    parts = split_claim(
        units=row.fact.units,
        begin_at=row.interval.begin_at,
        end_at=row.interval.end_at,
        uses=[_in_whole_seconds(consumer.use) for consumer in consumers],
    )
    by_uid = {consumer.pod_uid: consumer for consumer in consumers}
    return [
        _part_row(row, named=named, part=part, consumer=by_uid.get(part.pod_uid)) for part in parts
    ]


def _in_whole_seconds(use: Use) -> Use:
    end_at = None if use.end_at is None else whole_second(use.end_at)
    return Use(use.pod_uid, whole_second(use.begin_at), end_at)


def _part_row(row: UsageRow, *, named: str, part: ClaimPart, consumer: ClaimUse | None) -> UsageRow:
    claim = row.fact
    fact = structs.replace(claim, resource=named)
    if part.pod_uid != NOBODY and consumer is not None:
        fact = structs.replace(
            fact, pod_uid=consumer.pod_uid, pod_name=consumer.pod_name, owner=consumer.owner
        )
    return structs.replace(
        row,
        fact=fact,
        interval=_interval_of(row.interval, part=part),
        split_among=part.split_among,
        unit_seconds=part.unit_seconds,
        offered_as=offered_resource(claim.resource),
    )


def _interval_of(whole: Interval, *, part: ClaimPart) -> Interval:
    """Return a part's time; only one that lasts as long as the claim ends as uncertainly."""
    if part.end_at == whole.end_at:
        return structs.replace(whole, begin_at=part.begin_at)
    return Interval(part.begin_at, part.end_at, EndKind.EXACT, 0)
