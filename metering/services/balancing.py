"""Balancing nodes: what each offered against what was seen in use of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from metering.domain.capacity import Balance, Offer, balance_of
from metering.domain.catalogue import Sized
from metering.domain.exceptions import ExceptionKind, Finding, node_subject
from metering.domain.pod_life import CLAIM_PREFIX
from metering.domain.resource_names import resource_of
from metering.services.composed import CapacityRow, NodeUse
from metering.services.offers import NodeOffer, Offers, Place
from metering.services.sizing import Sizer

NO_LABELS: Mapping[str, str] = {}


_NOTHING = NodeOffer(units=0, unit_seconds=0)


def balance_nodes(
    offers: Offers,
    *,
    billed: Sequence[NodeUse],
    held: Sequence[NodeUse],
    sizer: Sizer,
    scrape_interval_seconds: int,
) -> tuple[list[CapacityRow], list[Finding]]:
    """Return one row per node and resource, by name, and what does not add up."""
    billed_at, held_at = _by_place(billed), _by_place(held)
    rows, findings = [], []
    for place in sorted({*offers.by_place, *billed_at, *held_at}):
        offer = _offer_of(
            offers.by_place.get(place, _NOTHING),
            billed=billed_at.get(place, ()),
            held=held_at.get(place, ()),
        )
        balance = balance_of(
            offer,
            scrape_interval_seconds=scrape_interval_seconds,
            window_seconds=offers.window_seconds,
        )
        row = _row_of(place, offer=offer, balance=balance)
        labels = offers.labels.get(place[0], NO_LABELS)
        sized = sizer.size(place[1], node=place[0], labels=labels)
        rows.append(_sized_row(row, sized=sized) if isinstance(sized, Sized) else row)
        finding = _excess(row, offer=offer)
        findings += [finding] if finding else []
    return rows, findings


def _by_place(uses: Sequence[NodeUse]) -> Mapping[Place, Sequence[NodeUse]]:
    grouped: dict[Place, list[NodeUse]] = defaultdict(list)
    for use in uses:
        grouped[use.node, use.resource].append(use)
    return grouped


def _offer_of(seen: NodeOffer, *, billed: Sequence[NodeUse], held: Sequence[NodeUse]) -> Offer:
    surely = [use for use in held if not use.is_disputed]
    uses = [*billed, *surely]
    return Offer(
        allocatable_units=seen.units,
        offered_unit_seconds=seen.unit_seconds,
        billed_unit_seconds=sum(use.unit_seconds for use in billed),
        held_unit_seconds=sum(use.unit_seconds for use in surely),
        disputed_unit_seconds=sum(use.unit_seconds for use in held if use.is_disputed),
        slack_unit_seconds=sum(use.units * use.slack_seconds for use in uses),
        units_in_use_max=max((use.units for use in uses), default=0),
    )


def _row_of(place: Place, *, offer: Offer, balance: Balance) -> CapacityRow:
    name = resource_of(place[1])
    return CapacityRow(
        node=place[0],
        resource=name.raw if name else place[1],
        size="",
        price_group="",
        sharing_mode="",
        share_numerator=1,
        share_denominator=1,
        allocatable_units=offer.allocatable_units,
        billed_unit_seconds=offer.billed_unit_seconds,
        balance=balance,
    )


def _excess(row: CapacityRow, *, offer: Offer) -> Finding | None:
    # What a claim may ask for is told by ResourceSlices, which not every watch may read.
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


def _sized_row(row: CapacityRow, *, sized: Sized) -> CapacityRow:
    return replace(
        row,
        size=sized.size.value,
        price_group=sized.price_group,
        sharing_mode=sized.sharing_mode.value,
        share_numerator=sized.share.numerator,
        share_denominator=sized.share.denominator,
    )
