"""Knowing: the current composition of each record, and how certain it is."""

from collections.abc import Mapping
from typing import Final

from metering.domain.allocations.claims import allocation_key
from metering.domain.allocations.timeline import EndKind, clip, seconds_between
from metering.domain.catalogue.units import sanitise
from metering.domain.collection.reconciliation import Accepted, tolerance_seconds
from metering.domain.corrections.correction import Known, UsageKey
from metering.selectors.corrections.ledger import LedgerFact
from metering.services.collection.composed import UsageRow, WindowInput

_SURENESS: Final[Mapping[EndKind, int]] = {
    EndKind.VANISHED_IN_GAP: 0,
    EndKind.VANISHED: 1,
    EndKind.EXACT: 2,
    EndKind.OPEN: 2,
}
"""How surely an end is known; a pod that continues past the hour has no end in it."""


def known_now(
    rows: Mapping[UsageKey, UsageRow],
    *,
    ledger: Mapping[UsageKey, LedgerFact],
    given: WindowInput,
) -> dict[UsageKey, Known]:
    """Return what is known now of every record, those a person accepted as nothing too."""
    observed = {
        key: Known(
            row.unit_seconds,
            is_proof=_is_proof(row, given=given),
            is_decided=_accepted(key, given=given) is not None,
            jitter_unit_seconds=_jitter(row, fact=ledger.get(key), given=given),
        )
        for key, row in rows.items()
    }
    # A person may have accepted evidence that a pod held nothing in the hour.
    nothing = {
        key: Known(0, is_decided=True)
        for key in ledger.keys() - rows.keys()
        if _is_decided_as_nothing(key, given=given)
    }
    return observed | nothing


def _accepted(key: UsageKey, *, given: WindowInput) -> Accepted | None:
    """Return what a person accepted about a record."""
    uid, resource = allocation_key(uid=key[0], resource=key[1])
    return given.ledger.decisions.get((uid, sanitise(resource)))


def _is_decided_as_nothing(key: UsageKey, *, given: WindowInput) -> bool:
    """Whether a person accepted evidence by which a pod held nothing in the hour."""
    accepted, hour = _accepted(key, given=given), given.hour
    if accepted is None:
        return False
    life = accepted.life
    return life is None or clip(life, start_at=hour.start_at, end_at=hour.end_at) is None


def _is_proof(row: UsageRow, *, given: WindowInput) -> bool:
    """Whether the cluster's API reported the row's exact end."""
    uid, resource = allocation_key(uid=row.fact.pod_uid, resource=row.fact.resource)
    ledger_row = given.ledger.rows.get((uid, sanitise(resource)))
    return (
        ledger_row is not None
        and ledger_row.is_from_api
        and ledger_row.life.end_kind is EndKind.EXACT
        and row.interval.end_kind is EndKind.EXACT
    )


def _jitter(row: UsageRow, *, fact: LedgerFact | None, given: WindowInput) -> int:
    """Return how much more is jitter: an end that is estimated as it was before moves a little.

    Another replica that scrapes some seconds later would otherwise add these at every recheck.
    """
    kind = row.interval.end_kind
    is_decided = _accepted(row.key, given=given) is not None
    if fact is None or is_decided or kind in {EndKind.EXACT, EndKind.OPEN}:
        return 0
    if _SURENESS[kind] > _SURENESS[EndKind(fact.line["end_kind"])]:
        return 0
    hour = given.hour
    seconds = tolerance_seconds(
        window_seconds=seconds_between(hour.start_at, hour.end_at),
        scrape_interval_seconds=given.scrape_interval_seconds,
    )
    return row.fact.units * seconds
