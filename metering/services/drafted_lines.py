"""Drafted lines: the records that a correction would write, as JSON values by column."""

from collections.abc import Sequence
from typing import Final

from metering.domain.claim_names import allocation_key
from metering.domain.exceptions import ExceptionKind, Finding, pod_subject
from metering.domain.resource_names import sanitise
from metering.selectors.corrections import LedgerFact, Line
from metering.services.composed import UsageRow

_OF_THE_CLAIM: Final = (
    "organization_id",
    "project_id",
    "node",
    "size",
    "price_group",
    "sharing_mode",
    "share_numerator",
    "share_denominator",
    "units",
    "catalogue_version",
)
"""Columns that a new part of a claim has from the parts the ledger holds."""


def less(lines: Sequence[Line], *, by: int) -> list[Line]:
    """Return lines that add so much less; what adds nothing any more is left out."""
    kept: list[Line] = []
    for line in lines:
        cut = min(by, max(0, line["unit_seconds"]))
        by -= cut
        if line["unit_seconds"] != cut:
            kept.append({**line, "unit_seconds": line["unit_seconds"] - cut})
    return kept


def line_of(row: UsageRow | None, *, fact: LedgerFact | None, sibling: LedgerFact | None) -> Line:
    """Return the record that a difference would become, but for its delta.

    Args:
        row: What is known now; None when nobody tells of it any more.
        fact: What the ledger holds of it; None when it has no record yet.
        sibling: What the ledger holds of another part of the same claim, which belongs to the same
            project and is the same hardware.
    """
    if fact is not None:
        return _next_line(row, fact=fact)
    assert row is not None  # noqa: S101 - A difference has one of both; tells the type.
    settled = {} if sibling is None else {name: sibling.line[name] for name in _OF_THE_CLAIM}
    return {**_first_line(row), **settled}


def _first_line(row: UsageRow) -> Line:
    """Return the record of a pod the window has none of."""
    fact, tenant = row.fact, row.tenant
    return {
        "organization_id": str(tenant.organization_id),
        "project_id": str(tenant.project_id),
        "owner": row.owner,
        "namespace": fact.namespace,
        "pod_name": fact.pod_name,
        "pod_uid": fact.pod_uid,
        "resource": fact.resource,
        "node": fact.node,
        "size": fact.size,
        "price_group": fact.price_group,
        "sharing_mode": fact.sharing_mode,
        "share_numerator": fact.share_numerator,
        "share_denominator": fact.share_denominator,
        "units": fact.units,
        "catalogue_version": fact.catalogue_version,
        "basis": 0,
        **_interval(row),
    }


def _next_line(row: UsageRow | None, *, fact: LedgerFact) -> Line:
    """Return the next revision: whose and what it is stays, when it was is what is known now."""
    nothing = {"end_at": fact.line["begin_at"], "seconds": 0}
    return {
        **fact.line,
        "basis": fact.unit_seconds,
        **(nothing if row is None else _interval(row)),
    }


def _interval(row: UsageRow) -> Line:
    interval = row.interval
    return {
        "split_among": row.split_among,
        "begin_at": interval.begin_at.isoformat(),
        "end_at": interval.end_at.isoformat(),
        "seconds": interval.seconds,
        "end_kind": interval.end_kind.value,
        "slack_seconds": interval.slack_seconds,
    }


def taken_already(lines: Sequence[Line]) -> Finding:
    """Return what is told when a correction would take more than persons have left of it."""
    line = lines[0]
    uid, resource = allocation_key(uid=line["pod_uid"], resource=line["resource"])
    left = sum(one["basis"] for one in lines)
    return Finding(
        kind=ExceptionKind.UNCERTAIN_END,
        subject=pod_subject(uid=uid, resource=sanitise(resource)),
        namespace=line["namespace"],
        summary=(
            f"The sources tell less of {line['pod_name']} than was metered, but a person's "
            f"correction left {left} unit-seconds of it; nothing more is taken away."
        ),
        details={"pod": line["pod_name"], "left_unit_seconds": left},
    )
