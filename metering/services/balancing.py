"""Balancing nodes: what each offered against what was seen in use of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metering.domain.capacity import Balance, Offer, balance_of, blind_seconds
from metering.domain.catalogue import Sized
from metering.domain.exceptions import ExceptionKind, Finding
from metering.domain.resource_names import resource_of
from metering.domain.window import seconds_between
from metering.protocols import NodeObservation, Observation
from metering.services.sizing import Sizer

NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True)
class NodeUse:
    """One pod's use of one resource of one node.

    Attributes:
        resource: Sanitised name.
        slack_seconds: How far the end is uncertain.
    """

    node: str
    resource: str
    units: int
    unit_seconds: int
    slack_seconds: int


@dataclass(frozen=True)
class CapacityRow:
    """One capacity record before it is written; see models.CapacityRecord."""

    node: str
    resource: str
    size: str
    price_group: str
    share_numerator: int
    share_denominator: int
    allocatable_units: int
    billed_unit_seconds: int
    held_unit_seconds: int
    balance: Balance


_Place = tuple[str, str]
"""Node and sanitised resource."""


def balance_nodes(
    observation: Observation,
    *,
    billed: Sequence[NodeUse],
    held: Sequence[NodeUse],
    sizer: Sizer,
    scrape_interval_seconds: int,
) -> tuple[list[CapacityRow], list[Finding]]:
    """Return one row per node and resource, by name, and what does not add up."""
    nodes = {node.node: node for node in observation.nodes}
    billed_at, held_at = _by_place(billed), _by_place(held)
    unseen_seconds = blind_seconds(
        observation.ticks,
        start_at=observation.start_at,
        end_at=observation.end_at,
        scrape_interval_seconds=scrape_interval_seconds,
    )
    places = {
        (node.node, resource)
        for node in observation.nodes
        for resource, units in node.allocatable.items()
        if units > 0
    }
    rows, findings = [], []
    for place in sorted(places | set(billed_at) | set(held_at)):
        row, finding = _balance_place(
            place,
            node=nodes.get(place[0]),
            billed=billed_at.get(place, ()),
            held=held_at.get(place, ()),
            window_seconds=seconds_between(observation.start_at, observation.end_at),
            unseen_seconds=unseen_seconds,
            scrape_interval_seconds=scrape_interval_seconds,
        )
        node = nodes.get(place[0])
        sized = sizer.size(place[1], node=place[0], labels=node.labels if node else NO_LABELS)
        rows.append(_sized_row(row, sized=sized if isinstance(sized, Sized) else None))
        findings += [finding] if finding else []
    return rows, findings


def _by_place(uses: Sequence[NodeUse]) -> Mapping[_Place, Sequence[NodeUse]]:
    grouped: dict[_Place, list[NodeUse]] = defaultdict(list)
    for use in uses:
        grouped[use.node, use.resource].append(use)
    return grouped


def _balance_place(  # noqa: PLR0913 - What a place is balanced from; private to this module.
    place: _Place,
    *,
    node: NodeObservation | None,
    billed: Sequence[NodeUse],
    held: Sequence[NodeUse],
    window_seconds: int,
    unseen_seconds: int,
    scrape_interval_seconds: int,
) -> tuple[CapacityRow, Finding | None]:
    uses = [*billed, *held]
    offer = Offer(
        allocatable_units=node.allocatable.get(place[1], 0) if node else 0,
        covered_seconds=node.covered_seconds + unseen_seconds if node else 0,
        billed_unit_seconds=sum(use.unit_seconds for use in billed),
        held_unit_seconds=sum(use.unit_seconds for use in held),
        slack_unit_seconds=sum(use.units * use.slack_seconds for use in uses),
        units_in_use_max=max((use.units for use in uses), default=0),
    )
    balance = balance_of(
        offer, scrape_interval_seconds=scrape_interval_seconds, window_seconds=window_seconds
    )
    name = resource_of(place[1])
    row = CapacityRow(
        node=place[0],
        resource=name.raw if name else place[1],
        size="",
        price_group="",
        share_numerator=1,
        share_denominator=1,
        allocatable_units=offer.allocatable_units,
        billed_unit_seconds=offer.billed_unit_seconds,
        held_unit_seconds=offer.held_unit_seconds,
        balance=balance,
    )
    return row, _excess(row, offer=offer)


def _excess(row: CapacityRow, *, offer: Offer) -> Finding | None:
    if row.balance.is_unseen:
        return Finding(
            kind=ExceptionKind.UNKNOWN_NODE,
            subject=f"{row.node} {row.resource}",
            summary=f"Pods held {row.resource} on {row.node}, which was not seen to offer any.",
            details={"node": row.node, "resource": row.resource},
        )
    if row.balance.is_over_capacity:
        used = offer.billed_unit_seconds + offer.held_unit_seconds
        return Finding(
            kind=ExceptionKind.OVER_CAPACITY,
            subject=f"{row.node} {row.resource}",
            summary=(
                f"Pods used {used} unit-seconds of {row.resource} on {row.node}, which offered "
                f"{row.balance.capacity_unit_seconds}: something is counted twice."
            ),
            details={
                "node": row.node,
                "resource": row.resource,
                "used_unit_seconds": used,
                "capacity_unit_seconds": row.balance.capacity_unit_seconds,
            },
        )
    return None


def _sized_row(row: CapacityRow, *, sized: Sized | None) -> CapacityRow:
    if sized is None:
        return row
    return CapacityRow(
        node=row.node,
        resource=row.resource,
        size=sized.size.value,
        price_group=sized.price_group,
        share_numerator=sized.share.numerator,
        share_denominator=sized.share.denominator,
        allocatable_units=row.allocatable_units,
        billed_unit_seconds=row.billed_unit_seconds,
        held_unit_seconds=row.held_unit_seconds,
        balance=row.balance,
    )
