"""Device claims: one claim's time billed once, split among the pods it was reserved for."""

from collections.abc import Sequence
from dataclasses import replace

from metering.domain.claim_names import offered_resource, record_resource
from metering.domain.claim_split import NOBODY, Part, Use, split_claim
from metering.domain.pod_life import CLAIM_PREFIX
from metering.domain.timeline import EndKind, Interval
from metering.domain.window import whole_second
from metering.selectors.allocations import AllocationFact
from metering.selectors.watched_pods import ClaimUse
from metering.services.composed import UsageRow


def is_claim(fact: AllocationFact) -> bool:
    """Whether an allocation is a device claim's rather than a pod's."""
    return fact.resource.startswith(CLAIM_PREFIX)


def claim_rows(row: UsageRow, *, consumers: Sequence[ClaimUse]) -> list[UsageRow]:
    """Return the usage records of a claim's allocation, which add up to what it held.

    One per pod it was reserved for, and one of the claim itself for the time it was nobody's; all
    name the claim and its class as their resource.

    Args:
        row: What the claim held.
        consumers: Whom it was reserved for.
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


def _part_row(row: UsageRow, *, named: str, part: Part, consumer: ClaimUse | None) -> UsageRow:
    claim = row.fact
    fact = replace(claim, resource=named)
    if part.pod_uid != NOBODY and consumer is not None:
        fact = replace(
            fact, pod_uid=consumer.pod_uid, pod_name=consumer.pod_name, owner=consumer.owner
        )
    return replace(
        row,
        fact=fact,
        interval=_interval_of(row.interval, part=part),
        split_among=part.split_among,
        part_unit_seconds=part.unit_seconds,
        offered_as=offered_resource(claim.resource),
    )


def _interval_of(whole: Interval, *, part: Part) -> Interval:
    """Return a part's time; only one that lasts as long as the claim ends as uncertainly."""
    if part.end_at == whole.end_at:
        return replace(whole, begin_at=part.begin_at)
    return Interval(part.begin_at, part.end_at, EndKind.EXACT, 0)
