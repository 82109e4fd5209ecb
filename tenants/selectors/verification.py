"""Checks of what tenants holds: audit entries and their leaves. And what the last run found."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Q
from django.db.models.functions import Now

from tenants.domain.verification import CheckedBatch, Cursor
from tenants.models import AuditEntry, Verification

SETTLED_AFTER: Final = timedelta(hours=1)
"""No transaction of the service is open for so long: entries below are all there are."""
STALE_AFTER: Final = timedelta(hours=48)
"""Two nights without a complete run."""
EARLIER_RUNS: Final = 32
"""A month of nights, so that forged ones do not displace what was found before them unseen."""
END_OF_RUN: Final = "tenants:verification:end"
LEAVES_PER_BATCH: Final = 10_000
"""Half a second of the database's time, and half a megabyte."""

_LEAF: Final = """
sha256('\\x00'::bytea || (
  SELECT string_agg(convert_to(octet_length(convert_to(part, 'UTF8'))::text || ':', 'UTF8')
                    || convert_to(part, 'UTF8'), ''::bytea ORDER BY position)
    FROM unnest(ARRAY[
           e.id::text, to_char(e.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           e.actor_kind, e.actor_id, e.actor_label, e.action, e.object_kind, e.object_id,
           coalesce(e.organization_id::text, ''), e.facts::text]
           || CASE WHEN e.recorded_at IS NULL THEN '{}' ELSE ARRAY[
           to_char(e.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           e.transaction_id::text] END) WITH ORDINALITY AS parts(part, position)))
"""
# Written out here, so that a replaced function of the database vouches for nothing.
_LEAVES: Final = f"""
SELECT e.id, e.leaf, e.leaf = {_LEAF}
  FROM (SELECT * FROM tenants_auditentry WHERE id > %s ORDER BY id LIMIT %s) e ORDER BY e.id
"""  # noqa: S608 - A constant.
ENTRIES_PER_BATCH: Final = 20_000
"""A tenth of a second of the database's time."""
_SETTLED: Final = """
SELECT coalesce((SELECT id FROM tenants_auditentry
                  WHERE recorded_at IS NULL
                     OR recorded_at < clock_timestamp() - make_interval(secs => %s)
                  ORDER BY id DESC LIMIT 1), 0)
"""


def last_verification(*, checks: Sequence[str]) -> Verification | None:
    """Return the last run that has ended, or has found something by now; one row is read.

    A run of other checks than these, or one of a coming time, shows nothing but what it found.
    """
    return (
        Verification.objects.filter(started_at__lte=Now())
        .filter(Q(difference_count__gt=0) | Q(ended_at__lte=Now(), checks=list(checks)))
        .order_by("-id")
        .first()
    )


def verification_sentence(*, checks: Sequence[str], at: datetime) -> str:
    """Return what the last run found, "" when it found nothing; one row is read."""
    last = last_verification(checks=checks)
    if last is None:
        return "The database was never verified."
    if last.difference_count:
        return (
            f"{last.difference_count} differences were found at {last.started_at:%Y-%m-%d %H:%M} "
            "UTC. Run manage.py verify, and find out who did it."
        )
    if last.started_at < at - STALE_AFTER:
        return f"The database was last verified at {last.started_at:%Y-%m-%d %H:%M} UTC."
    return ""


def unfinished_verification(*, checks: Sequence[str], since: datetime) -> Verification | None:
    """Return the newest nightly run of these checks that began since a time and has not ended."""
    begun = Verification.objects.filter(started_at__gt=since, started_at__lte=Now())
    return begun.filter(ended_at=None, is_nightly=True, checks=list(checks)).order_by("-id").first()


def first_audit_cursor(*, expected: tuple[int, str] | None = None) -> dict[str, Any]:
    """Return where the check of audit entries begins, with the digests it has to meet.

    Args:
        expected: Count and digest of a line of the log, beside those of earlier runs.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SETTLED, [int(SETTLED_AFTER.total_seconds())])
        (settled_id,) = cursor.fetchone()
    known: list[list[int | str]] = [
        [run.audit_count, run.audit_digest, "an earlier verification"]
        for _, run in _earlier_ends()
        if run is not None
    ]
    if expected is not None:
        known.append([*expected, "the log"])
    return {
        "id": 0,
        "count": 0,
        "digest": "",
        "settled_id": settled_id,
        "expected": [one for one in known if one[0]],
    }


def is_end_of_run(entry_id: int) -> bool:
    """Whether an audit entry says that a run has ended.

    Another number could be one of the years to come: ends up to there would never be compared.
    """
    ends = AuditEntry.objects.filter(object_kind="verification", action=END_OF_RUN)
    return ends.filter(pk=entry_id).exists()


def _earlier_ends() -> list[tuple[int, Verification | None]]:
    """Return the newest ends of runs in the audit trail, each with the run it is of.

    The ids and times of entries are the database's. A run that found differences vouches for
    nothing; what it found is found until it is put right. An entry without its run, or with
    figures that are not the run's, has None. What the owner has accepted is left out.
    """
    accepted = Verification.objects.aggregate(last=Max("accepted_entry_id"))["last"] or 0
    entries = AuditEntry.objects.filter(
        object_kind="verification",
        action=END_OF_RUN,
        facts__differences=0,
        id__gt=accepted,
    ).order_by("-id")[:EARLIER_RUNS]
    runs = {
        str(run.pk): run
        for run in Verification.objects.exclude(ended_at=None).filter(
            pk__in=[entry.object_id for entry in entries if entry.object_id.isdecimal()]
        )
    }
    return [(entry.pk, _run_of(entry, run=runs.get(entry.object_id))) for entry in entries]


def _run_of(entry: AuditEntry, *, run: Verification | None) -> Verification | None:
    """Return the run when it has the figures of the entry of its end."""
    if run is None:
        return None
    figures = (run.difference_count, run.audit_count, run.audit_digest)
    names = ("differences", "audit_count", "audit_digest")
    return run if figures == tuple(entry.facts.get(name) for name in names) else None


def check_audit_entries(cursor: Cursor) -> CheckedBatch:
    """Recompute leaves, and chain those of settled entries into one digest."""
    at = dict(cursor or first_audit_cursor())
    with connection.cursor() as database:
        database.execute(_LEAVES, [at["id"], LEAVES_PER_BATCH])
        rows = database.fetchall()
    found = [
        f"Audit entry {entry_id} is not what its leaf was made of."
        for entry_id, _, is_same in rows
        if not is_same
    ]
    found += _chain(at, rows)
    if len(rows) == LEAVES_PER_BATCH:
        return CheckedBatch(len(rows), tuple(found), {**at, "id": rows[-1][0]})
    found += [
        f"Audit entry {entry_id} says that a verification has ended, and none has with its digest."
        for entry_id, run in _earlier_ends()
        if run is None
    ]
    found += [
        f"Audit entries are missing: {at['count']} are left of {count}, by {source}."
        for count, _, source in at["expected"]
        if at["count"] < count
    ]
    return CheckedBatch(
        len(rows), tuple(found), None, facts={"count": at["count"], "digest": at["digest"]}
    )


def _chain(at: dict[str, Any], rows: list[tuple[int, memoryview, bool]]) -> list[str]:
    """Carry count and digest on over settled rows; return where they are not the known ones."""
    expected: dict[int, list[tuple[str, str]]] = {}
    for known_count, known, source in at["expected"]:
        expected.setdefault(known_count, []).append((known, source))
    found, count, digest = [], int(at["count"]), bytes.fromhex(at["digest"])
    for entry_id, leaf, _ in rows:
        if entry_id > at["settled_id"]:
            break
        count, digest = count + 1, hashlib.sha256(digest + bytes(leaf)).digest()
        if count in expected:
            found += [
                f"The first {count} audit entries have the digest {digest.hex()}; "
                f"{source} has {known}."
                for known, source in expected[count]
                if known != digest.hex()
            ]
    at["count"], at["digest"] = count, digest.hex()
    return found


def check_frozen_by_entries(
    cursor: Cursor, *, actions: Sequence[str], is_kept: str, sentence: str
) -> CheckedBatch:
    """Start from the audit trail: what entries of some actions froze is there, and frozen.

    Args:
        cursor: The id of the last entry read.
        actions: Of the entries.
        is_kept: SQL of ours, a condition about the entry `e`.
        sentence: With `{}` for the object's id, where it is not kept.
    """
    query = _FROZEN.format(is_kept=is_kept)
    with connection.cursor() as database:
        database.execute(query, [cursor.get("id", 0), ENTRIES_PER_BATCH, list(actions)])
        last_id, count, missing = database.fetchone()
    found = tuple(sentence.format(object_id) for object_id in missing)
    return CheckedBatch(count, found, None if last_id is None else {"id": last_id})


_FROZEN: Final = """
WITH page AS MATERIALIZED (
  SELECT id, action, object_id, facts FROM tenants_auditentry WHERE id > %s ORDER BY id LIMIT %s),
said AS MATERIALIZED (SELECT * FROM page WHERE action = ANY(%s))
SELECT (SELECT max(id) FROM page), (SELECT count(*) FROM said),
       ARRAY(SELECT e.object_id FROM said e WHERE ({is_kept}) IS NOT TRUE ORDER BY e.id)
"""
