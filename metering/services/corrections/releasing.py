"""Releasing: the changes of a sealed hour's exceptions in a recheck."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.db import connection

from metering.domain.allocations.claims import allocation_key
from metering.domain.catalogue.names import sanitise
from metering.domain.corrections.correction import CorrectionCause, CorrectionState, UsageKey
from metering.domain.corrections.exceptions import (
    AUTO_RESOLUTION,
    BILLED_RESOLUTION,
    SIDED_KINDS,
    Finding,
    pod_subject,
)
from metering.models import MeteringWindow, UsageCorrection
from metering.selectors.corrections.corrections import Line
from metering.services.corrections.exceptions import finding_values

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
        for subject in sorted({_subject_of(line) for line in row.lines})
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


def _subject_of(line: Line) -> str:
    """Return what held a line's use: its pod, or the claim it is a part of."""
    uid, resource = allocation_key(uid=line["pod_uid"], resource=line["resource"])
    return pod_subject(uid=uid, resource=sanitise(resource))


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
    for (part_uid, part_resource), unit_seconds in sums:
        uid, resource = allocation_key(uid=part_uid, resource=part_resource)
        found[pod_subject(uid=uid, resource=sanitise(resource))] += unit_seconds
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
