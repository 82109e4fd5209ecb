"""Writing metering exceptions: what a collection found, and what a person decided about it."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from metering.domain.collection.policy import DEFAULT_POLICY, MeteringPolicy
from metering.domain.collection.windows import WindowState
from metering.domain.corrections.exceptions import (
    AUTO_RESOLUTION,
    REMEDIES,
    WAITING_KINDS,
    WAITING_SENTENCE,
    ExceptionKind,
    Finding,
)
from metering.domain.errors import (
    ExceptionResolvedError,
    MeteringExceptionNotFoundError,
    NoteMissingError,
    WindowDecisionRequiredError,
)
from metering.models import ExceptionState, MeteringException
from metering.services.collection.windows import ClaimedWindow
from metering.services.devices.leasing import LeasedDevices
from tenants.domain.actors import Actor, ActorKind
from tenants.services.audit import record

# An exception a person resolved stays resolved while the facts are the same; others open again, and
# so does a cause that blocks the window: otherwise it would be blocked without an open exception.
# The digest of the responses is not compared, because it changes with every query.
_UPSERT = """
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT %(cluster_id)s, %(window_id)s, %(start_at)s, f.kind, f.subject, f.namespace, f.summary,
       f.remedy, f.held_unit_seconds, f.details, 'open', %(at)s, ''
  FROM jsonb_to_recordset(%(findings)s) AS f(kind text, subject text, namespace text,
    summary text, remedy text, held_unit_seconds bigint, details jsonb)
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET namespace = EXCLUDED.namespace, summary = EXCLUDED.summary, remedy = EXCLUDED.remedy,
       held_unit_seconds = EXCLUDED.held_unit_seconds, details = EXCLUDED.details,
       state = 'open', resolved_at = NULL, resolved_by_id = NULL, resolution = ''
 WHERE EXCLUDED.kind = ANY(%(waiting)s)
    OR NOT (e.state = 'resolved' AND e.resolution <> %(auto)s
            AND e.details - 'query_digest' = EXCLUDED.details - 'query_digest'
            AND e.held_unit_seconds = EXCLUDED.held_unit_seconds)
"""
_RESOLVE_GONE = """
UPDATE metering_meteringexception
   SET state = 'resolved', resolved_at = %(at)s, resolution = %(auto)s
 WHERE window_id = %(window_id)s AND state = 'open'
   AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
   AND NOT (kind, subject) IN (SELECT * FROM jsonb_to_recordset(%(findings)s)
                                 AS f(kind text, subject text))
"""


_REPORT_WAITING = """
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT w.cluster_id, w.id, w.start_at, cause.kind, '', '',
       COALESCE(NULLIF(w.last_error, ''), %(sentence)s), cause.remedy, 0, '{}', 'open', now.at, ''
  FROM (SELECT moment AS at, moment - make_interval(secs => %(lateness)s) AS overdue_at,
               moment - interval '1 hour' - make_interval(secs => %(patience)s) AS old_at
          FROM LEAST(%(at)s, clock_timestamp()) AS moment) now
  JOIN metering_meteringwindow w ON w.state <> 'sealed'
  JOIN jsonb_to_recordset(%(causes)s) AS cause(state text, kind text, remedy text)
    ON cause.state = CASE WHEN w.state = 'open' AND w.failures = 0 THEN '' ELSE w.state END
 WHERE (w.state <> 'open' OR (w.not_before <= now.overdue_at AND w.start_at <= now.old_at))
   AND NOT EXISTS (SELECT FROM metering_meteringexception o
                    WHERE o.window_id = w.id AND o.state = 'open' AND o.kind = ANY(%(waiting)s))
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET summary = EXCLUDED.summary, remedy = EXCLUDED.remedy, state = 'open', resolved_at = NULL,
       resolved_by_id = NULL, resolution = ''
"""
_WAITS_FOR: Final = {
    WindowState.GAP.value: ExceptionKind.LOW_COVERAGE,
    WindowState.QUARANTINED.value: ExceptionKind.QUARANTINED,
    WindowState.OPEN.value: ExceptionKind.SOURCE_UNAVAILABLE,
    "": ExceptionKind.OVERDUE,
}
"""By state; "" is an open window that no attempt has failed at."""


def report_waiting_windows(*, at: datetime, policy: MeteringPolicy = DEFAULT_POLICY) -> int:
    """Open an exception for every window that waits without one; return how many there were.

    A gap and a quarantined window wait for a decision; one that is older than the policy's patience
    and was not tried when it was due waits for a worker. Whatever resolved its exceptions, such a
    window is never out of every queue. Call it before windows are opened: those of past hours that
    are new have had no time yet.
    """
    causes = [
        {"state": state, "kind": kind.value, "remedy": REMEDIES[kind]}
        for state, kind in _WAITS_FOR.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            _REPORT_WAITING,
            {
                "at": at,
                "causes": json.dumps(causes),
                "sentence": WAITING_SENTENCE,
                "waiting": sorted(kind.value for kind in WAITING_KINDS),
                "lateness": policy.lateness_seconds,
                "patience": policy.gap_patience_seconds,
            },
        )
        return int(cursor.rowcount)


def write_findings(
    claimed: ClaimedWindow | LeasedDevices,
    *,
    findings: Sequence[Finding],
    at: datetime,
    resolve_kinds: Collection[ExceptionKind] | None = None,
) -> None:
    """Keep what a collection found about a window, and resolve what it no longer finds.

    Args:
        claimed: The window.
        findings: What is true of it now; one per kind and subject.
        at: When.
        resolve_kinds: Which kinds this collection could have found again; None for all.
    """
    parameters: dict[str, Any] = {
        "cluster_id": claimed.cluster_id,
        "window_id": claimed.id,
        "start_at": claimed.start_at,
        "at": at,
        "auto": AUTO_RESOLUTION,
        "waiting": sorted(kind.value for kind in WAITING_KINDS),
        "kinds": None if resolve_kinds is None else [kind.value for kind in resolve_kinds],
        "findings": json.dumps([finding_values(finding) for finding in findings]),
    }
    with connection.cursor() as cursor:
        if findings:
            cursor.execute(_UPSERT, parameters)
        cursor.execute(_RESOLVE_GONE, parameters)


def finding_values(finding: Finding) -> dict[str, object]:
    """Return a finding as the JSON an exception is written from."""
    return {
        "kind": finding.kind.value,
        "subject": finding.subject,
        "namespace": finding.namespace,
        "summary": finding.summary,
        "remedy": finding.remedy,
        "held_unit_seconds": finding.held_unit_seconds,
        "details": dict(finding.details),
    }


def resolve_exception(
    *, exception_id: int, note: str, actor: Actor, at: datetime
) -> MeteringException:
    """Resolve an exception as looked after by a person; held unit-seconds stay unbilled.

    One for which its window waits is resolved by the decision on the window.

    Raises:
        NoteMissingError: The note is empty.
        WindowDecisionRequiredError: Its window waits for it.
        MeteringExceptionNotFoundError: There is no such exception.
        ExceptionResolvedError: It is resolved already.
    """
    text = _required_note(note)
    with transaction.atomic():
        asked = MeteringException.objects.filter(id=exception_id, state=ExceptionState.OPEN)
        if asked.filter(kind__in=[kind.value for kind in WAITING_KINDS]).exists():
            raise WindowDecisionRequiredError("The hour was not metered.")
        changed = MeteringException.objects.filter(
            id=exception_id, state=ExceptionState.OPEN
        ).update(
            state=ExceptionState.RESOLVED,
            resolved_at=at,
            resolved_by_id=person_id(actor=actor),
            resolution=text,
        )
        found = MeteringException.objects.filter(id=exception_id).first()
        if found is None:
            raise MeteringExceptionNotFoundError("There is no such exception.")
        if not changed:
            raise ExceptionResolvedError("The exception is resolved already.")
        record(
            actor=actor,
            at=at,
            action="metering:exception:resolve",
            object_kind="metering_exception",
            object_id=exception_id,
            facts={
                "kind": found.kind,
                "subject": found.subject,
                "held_unit_seconds": found.held_unit_seconds,
                "note": text,
            },
        )
    return found


def resolve_of_windows(
    window_ids: Sequence[int],
    *,
    kinds: Collection[ExceptionKind],
    note: str,
    actor: Actor,
    at: datetime,
) -> int:
    """Resolve windows' open exceptions of some kinds as decided by a person; return how many.

    Raises:
        NoteMissingError: The note is empty.
    """
    return MeteringException.objects.filter(
        window_id__in=window_ids,
        kind__in=[kind.value for kind in kinds],
        state=ExceptionState.OPEN,
    ).update(
        state=ExceptionState.RESOLVED,
        resolved_at=at,
        resolved_by_id=person_id(actor=actor),
        resolution=_required_note(note),
    )


def _required_note(note: str) -> str:
    text = note.strip()
    if not text:
        raise NoteMissingError("The decision has no reason.", field="note")
    return text


def person_id(*, actor: Actor) -> int | None:
    """Return the acting person's id; None for the system and for tokens."""
    return int(actor.id) if actor.kind is ActorKind.PERSON else None
