"""Posting: writes corrections with their records, and what becomes of the hour's exceptions.

A correction is written with all its records or not at all. Usage that it releases resolves the
exception that held it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from django.db import connection

from metering.domain.allocations.claims import allocation_key
from metering.domain.catalogue.units import sanitise
from metering.domain.collection.windows import WINDOW
from metering.domain.corrections.correction import (
    CorrectionCause,
    CorrectionState,
    UsageKey,
    digest_of_lines,
    stays_above_zero,
)
from metering.domain.corrections.exceptions import (
    AUTO_RESOLUTION,
    BILLED_RESOLUTION,
    SIDED_KINDS,
    Finding,
    pod_subject,
)
from metering.domain.errors import CorrectionBelowZeroError, CorrectionStaleError
from metering.models import MeteringWindow, UsageCorrection
from metering.selectors.collection.usage_facts import usage_statements
from metering.selectors.corrections.ledger import LINE_TYPES, LedgerFact, Line
from metering.services.collection.findings import finding_values
from tenants.domain.actors import Actor
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows

_RECORDS = f"""
SELECT c.window_id, c.window_start, c.cluster_id, c.id AS correction_id,
       latest.revision + 1 AS revision, {", ".join(f"l.{name}" for name in LINE_TYPES)}
  FROM metering_usagecorrection c
 CROSS JOIN LATERAL jsonb_to_recordset(c.lines)
   AS l({", ".join(f"{name} {kind}" for name, kind in LINE_TYPES.items())})
 CROSS JOIN LATERAL (
   SELECT coalesce(max(u.revision), 0) AS revision FROM metering_usage u
    WHERE (u.window_start, u.cluster_id, u.pod_uid, u.resource)
          = (c.window_start, c.cluster_id, l.pod_uid, l.resource)) latest
 WHERE c.id = ANY(%(ids)s)
"""  # noqa: S608 - The statement is put together from constants only.
_NEW_FACTS, _WRITE = usage_statements(_RECORDS)


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
        MonthArchivedError: The usage of the month is in an archive.
        CorrectionBelowZeroError: A line takes away more than there is.
    """
    for draft in drafts:
        start_at = draft.window.start_at
        require_rows(ArchivedTable.USAGE, begin_at=start_at, end_at=start_at + WINDOW)
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
        cursor.execute(_NEW_FACTS, {"ids": list(correction_ids)})
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
    """Return the audit facts of a correction."""
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
        requested_by=actor.label,
        requested_by_id=actor.id,
        requested_at=at,
    )
    if state is CorrectionState.POSTED:
        row.decided_by, row.decided_by_id, row.decided_at = actor.label, actor.id, at
    return row


_RESOLVE = """
UPDATE metering_meteringexception e
   SET state = 'resolved', resolved_at = %(at)s,
       resolution = format('%%s %%s.', %(billed)s::text, r.correction)
  FROM jsonb_to_recordset(%(released)s) AS r(subject text, correction text)
 WHERE e.window_id = %(window_id)s AND e.state = 'open' AND e.held_unit_seconds > 0
   AND e.subject = r.subject
   AND NOT (e.kind, e.subject) IN (SELECT * FROM jsonb_to_recordset(%(holding)s)
                                     AS f(kind text, subject text))
"""
# Exceptions a person has reviewed stay as they are; one that was resolved because its cause was
# gone opens when the cause returns, and so does a decision whose evidence no source reports any
# more.
_ADD = """
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT %(cluster_id)s, %(window_id)s, %(start_at)s, f.kind, f.subject, f.namespace, f.summary,
       f.remedy, f.held_unit_seconds, f.details, 'open', %(at)s, ''
  FROM jsonb_to_recordset(%(findings)s) AS f(kind text, subject text, namespace text,
    summary text, remedy text, held_unit_seconds bigint, details jsonb)
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET summary = EXCLUDED.summary, held_unit_seconds = EXCLUDED.held_unit_seconds,
       details = EXCLUDED.details, state = 'open', resolved_at = NULL, resolved_by_id = NULL,
       resolution = ''
 WHERE (e.state = 'open' AND e.held_unit_seconds <> EXCLUDED.held_unit_seconds)
    OR (e.state = 'resolved' AND e.kind = ANY(%(sided)s)
        AND (e.resolution = %(auto)s OR starts_with(e.resolution, %(billed)s)))
    OR (e.details ->> 'cause' IS DISTINCT FROM 'unsupported'
        AND EXCLUDED.details ->> 'cause' = 'unsupported')
"""


def resolve_released(
    window_id: int,
    *,
    corrections: Sequence[UsageCorrection],
    findings: Iterable[Finding] = (),
    at: datetime,
) -> int:
    """Resolve the exceptions whose usage posted corrections released; return how many.

    Each refers to the correction that bills what it held. An exception that still holds usage of
    the pod stays open.
    """
    released = [
        {"subject": subject, "correction": str(row.pk)}
        for row in corrections
        if row.cause == CorrectionCause.RELEASED and row.state == CorrectionState.POSTED
        for subject in sorted({subject_of(one["pod_uid"], one["resource"]) for one in row.lines})
    ]
    if not released:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            _RESOLVE,
            {
                "window_id": window_id,
                "at": at,
                "billed": BILLED_RESOLUTION,
                "released": json.dumps(released),
                "holding": json.dumps(
                    [finding_values(found) for found in findings if found.held_unit_seconds]
                ),
            },
        )
        return int(cursor.rowcount)


def subject_of(pod_uid: str, resource: str) -> str:
    """Return the subject of a finding about a record: its pod, or the claim it is a part of."""
    uid, name = allocation_key(uid=pod_uid, resource=resource)
    return pod_subject(uid=uid, resource=sanitise(name))


def still_held(
    findings: Iterable[Finding],
    *,
    billed: Mapping[UsageKey, int],
    ledger: Mapping[UsageKey, int],
    posted: Iterable[Line],
) -> Iterator[Finding]:
    """Yield findings of a sealed hour with the amount held: no more than the ledger lacks.

    Args:
        findings: As a composition found them, as if no usage was billed yet.
        billed: What the composition would bill.
        ledger: What the ledger held before this recheck.
        posted: What this recheck adds.
    """
    would, has = _by_subject(billed.items()), _by_subject(ledger.items())
    has.update(_by_subject(((i["pod_uid"], i["resource"]), i["unit_seconds"]) for i in posted))
    for found in findings:
        lacking = would[found.subject] + found.held_unit_seconds - has[found.subject]
        held = max(0, min(found.held_unit_seconds, lacking))
        if held == found.held_unit_seconds:
            yield found
            continue
        summary = (
            f"{found.details.get('pod', found.subject)} is reported otherwise than when the hour "
            f"was sealed: {has[found.subject]} unit-seconds are billed and {held} are held."
        )
        yield replace(found, summary=summary, held_unit_seconds=held)


def _by_subject(sums: Iterable[tuple[UsageKey, int]]) -> Counter[str]:
    """Return sums by an exception's subject; a claim's parts are one."""
    found: Counter[str] = Counter()
    for key, unit_seconds in sums:
        found[subject_of(*key)] += unit_seconds
    return found


def add_findings(window: MeteringWindow, *, findings: Sequence[Finding], at: datetime) -> int:
    """Keep what was not known of a sealed window before; return how many exceptions changed."""
    if not findings:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            _ADD,
            {
                "cluster_id": window.cluster_id,
                "window_id": window.pk,
                "start_at": window.start_at,
                "at": at,
                "auto": AUTO_RESOLUTION,
                "billed": BILLED_RESOLUTION,
                "sided": sorted(kind.value for kind in SIDED_KINDS),
                "findings": json.dumps([finding_values(finding) for finding in findings]),
            },
        )
        return int(cursor.rowcount)
