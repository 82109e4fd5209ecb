"""Correcting: the one way by which a sealed window takes records, all of a correction or nothing.

A few statements for one pod and for ten thousand. The caller holds the window's lock, so that two
of them never judge the same sum.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from metering.domain.correction import (
    CorrectionCause,
    CorrectionState,
    digest_of_lines,
    stays_above_zero,
)
from metering.domain.errors import CorrectionBelowZeroError, CorrectionStaleError
from metering.models import MeteringWindow, UsageCorrection
from metering.selectors.corrections import LINE_TYPES, LedgerFact, Line
from tenants.domain.actors import Actor

_COLUMNS = ", ".join(LINE_TYPES)
_WRITE = f"""
INSERT INTO metering_usagerecord
  (window_id, window_start, cluster_id, correction_id, revision, {_COLUMNS})
SELECT c.window_id, c.window_start, c.cluster_id, c.id, latest.revision + 1,
       {", ".join(f"l.{name}" for name in LINE_TYPES)}
  FROM metering_usagecorrection c
 CROSS JOIN LATERAL jsonb_to_recordset(c.lines)
   AS l({", ".join(f"{name} {kind}" for name, kind in LINE_TYPES.items())})
 CROSS JOIN LATERAL (
   SELECT coalesce(max(u.revision), 0) AS revision FROM metering_usagerecord u
    WHERE (u.window_start, u.cluster_id, u.pod_uid, u.resource)
          = (c.window_start, c.cluster_id, l.pod_uid, l.resource)) latest
 WHERE c.id = ANY(%(ids)s)
"""  # noqa: S608 - The statement is put together from constants only.


@dataclass(frozen=True)
class Draft:
    """A correction before it is written.

    Attributes:
        lines: Of one project, each with its delta and the `basis` it was made against.
        evidence: JSON values, one object per query.
    """

    window: MeteringWindow
    cause: CorrectionCause
    reason: str
    lines: Sequence[Line]
    evidence: Sequence[Mapping[str, object]] = field(default_factory=tuple)
    recheck_id: int | None = None

    @property
    def unit_seconds(self) -> int:
        """Return the sum of the deltas."""
        return sum(line["unit_seconds"] for line in self.lines)


def write_drafts(
    drafts: Sequence[Draft], *, state: CorrectionState, actor: Actor, at: datetime
) -> list[UsageCorrection]:
    """Write corrections as proposed, or as posted with their records; return them in order.

    Raises:
        CorrectionBelowZeroError: A line takes away more than there is.
    """
    for draft in drafts:
        require_above_zero(draft.lines)
    made = UsageCorrection.objects.bulk_create(
        [_row(draft, state=state, actor=actor, at=at) for draft in drafts]
    )
    if state is CorrectionState.POSTED:
        write_records([row.pk for row in made])
    return made


def write_records(correction_ids: Collection[UUID]) -> int:
    """Write the records of posted corrections; return how many.

    The database has moved their capacity as they were posted.
    """
    if not correction_ids:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, {"ids": list(correction_ids)})
        return int(cursor.rowcount)


def require_above_zero(lines: Sequence[Line]) -> None:
    """Refuse lines that take away more than there is.

    Raises:
        CorrectionBelowZeroError: At least one does.
    """
    if not stays_above_zero(lines):
        raise CorrectionBelowZeroError(
            "The correction takes away more than was used.", field="unit_seconds"
        )


def require_fresh(lines: Sequence[Line], *, ledger: Mapping[tuple[str, str], LedgerFact]) -> None:
    """Refuse lines that were made against other sums than the ledger holds now.

    Raises:
        CorrectionStaleError: At least one was.
    """
    for line in lines:
        fact = ledger.get((line["pod_uid"], line["resource"]))
        if line["basis"] != (0 if fact is None else fact.unit_seconds):
            raise CorrectionStaleError(
                "The records have changed since the correction was asked for.",
                facts={"pod_uid": line["pod_uid"], "resource": line["resource"]},
            )


def facts_of(correction: UsageCorrection) -> dict[str, object]:
    """Return what the audit trail tells of a correction."""
    return {
        "correction": str(correction.pk),
        "window": correction.window_id,
        "start_at": correction.window_start.isoformat(),
        "organization": str(correction.organization_id),
        "project": str(correction.project_id),
        "cause": correction.cause,
        "records": correction.record_count,
        "unit_seconds": correction.unit_seconds,
        "digest": correction.digest,
    }


def _row(draft: Draft, *, state: CorrectionState, actor: Actor, at: datetime) -> UsageCorrection:
    first = draft.lines[0]
    row = UsageCorrection(
        window=draft.window,
        window_start=draft.window.start_at,
        cluster_id=draft.window.cluster_id,
        organization_id=UUID(first["organization_id"]),
        project_id=UUID(first["project_id"]),
        cause=draft.cause.value,
        reason=draft.reason,
        recheck_id=draft.recheck_id,
        evidence=list(draft.evidence),
        lines=json.loads(json.dumps(list(draft.lines))),
        record_count=len(draft.lines),
        unit_seconds=draft.unit_seconds,
        digest=digest_of_lines(draft.lines),
        state=state.value,
        asked_by=actor.label,
        asked_by_id=actor.id,
        asked_at=at,
    )
    if state is CorrectionState.POSTED:
        row.decided_by, row.decided_by_id, row.decided_at = actor.label, actor.id, at
    return row
