"""Decisions on hours: what only a person can decide where metering cannot finish by itself.

One hour or many: the same statements, a constant number for each batch, with an audit entry for
every hour. A decision holds for what was known when it was made; see `collecting`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F, QuerySet

from metering.domain.collection.hour_decisions import (
    NEEDS_REVIEW,
    UNFINISHED,
    DecidedHour,
    HourResult,
    PreviewedHour,
    preview_hour,
    refusal_of,
)
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    LOOK_AHEAD_DOUBLINGS_MAX,
    WINDOW,
    GapPolicy,
    MeteringPolicy,
    WindowState,
    may_move,
)
from metering.domain.corrections.exceptions import BLOCKING_KINDS, ExceptionKind
from metering.domain.errors import (
    WindowChangedError,
    WindowNotFoundError,
    WindowSealedError,
    WindowStateError,
    required_note,
)
from metering.models import (
    CapacityRecord,
    ExceptionState,
    MeteringException,
    MeteringWindow,
)
from metering.selectors.collection.hour_decisions import preview_decision
from metering.services.collection.division.leasing import dissolve
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record, record_each
from tenants.services.turns import for_each_isolated

BATCH: Final = 500
"""Hours decided on in one transaction: three weeks of a cluster, locked for well under a second."""


UNMETERED_NOTE: Final = "The cluster is no longer metered at this hour."


# A lease is removed with the state it belongs to: its worker finds that out when it posts. How
# little was observed is only known of a gap, so nowhere else less than all of it is accepted. What
# was accepted of a gap stays the least that a later decision holds for.
_METER_AGAIN = """
UPDATE metering_meteringwindow
   SET decided_on = CASE WHEN state = 'gap' THEN shown || jsonb_build_object(
         'observed_ticks', observed_ticks, 'watch_coverage', watch_coverage::text)
         ELSE decided_on END || jsonb_build_object('decided_at', %(decided_at)s::text),
       accepts_low_coverage = state = 'gap' OR accepts_low_coverage,
       state = 'open', lease_owner = '', lease_until = NULL, gap_policy = %(decision)s,
       not_before = %(at)s, attempt = 0, failures = %(failures)s
 WHERE id = ANY(%(ids)s)
"""


# What is metered waits for an open exception alone, so that to accept it needs no source.
_ACCEPT_METERED = """
UPDATE metering_meteringwindow
   SET state = 'reconciled', gap_policy = %(decision)s, not_before = %(at)s
 WHERE id = ANY(%(ids)s)
"""


_FORGO_USAGE = """
DELETE FROM metering_usagerecord WHERE window_id = ANY(%s) AND window_start = ANY(%s)
"""
_WAIVE = """
UPDATE metering_meteringwindow
   SET state = 'reconciled', lease_owner = '', lease_until = NULL, gap_policy = %(decision)s,
       decided_on = shown, not_before = %(at)s, record_count = 0, as_of = COALESCE(as_of, %(at)s)
 WHERE id = ANY(%(ids)s)
"""


def retry_window(*, window_id: int, note: str = "", actor: Actor, at: datetime) -> MeteringWindow:
    """Make a window that is not sealed due now, with all its attempts before it.

    An earlier acceptance must be given again.

    Raises:
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed.
        WindowStateError: A worker collects it at the moment.
    """
    with transaction.atomic():
        window = _lock(window_id)
        before = WindowState(window.state)
        is_due_later = before is WindowState.OPEN
        if not is_due_later and (
            before is WindowState.COLLECTING or not may_move(before, after=WindowState.OPEN)
        ):
            raise WindowStateError(
                "A worker collects the window at the moment.", facts={"state": before.value}
            )
        dissolve([window.id])
        MeteringWindow.objects.filter(id=window.id).update(
            state=WindowState.OPEN,
            accepts_low_coverage=False,
            gap_policy="",
            decided_on={},
            not_before=at,
            attempt=0,
            failures=0,
        )
        window.refresh_from_db()
        record(
            actor=actor,
            at=at,
            action="metering:window:retry",
            object_kind="metering_window",
            object_id=window.id,
            facts=_facts(window, state=window.state, before=before.value, note=note),
        )
    return window


def decide_window(  # noqa: PLR0913 - A decision has these parts; all are keyword only.
    *,
    window_id: int,
    decision: GapPolicy,
    note: str,
    shown_digest: str = "",
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> MeteringWindow:
    """Decide on an hour that needs review, or that is over its patience, whatever the cause.

    A waived hour loses what an earlier attempt may have recorded, and the next sweep seals it
    empty. One that is metered, but over capacity, is accepted as it is. Any other decision meters
    it again, querying far enough ahead to observe what outlived the outage: accepted, it bills what
    was observed; as last known, what was bound before the hole until half a scrape after its last
    sample, and on if it was observed again; held, it keeps all of that in exceptions. Repeating a
    decision has no effect.

    Args:
        window_id: The hour.
        decision: The decision.
        note: Why.
        shown_digest: The digest of what the person was shown; "" for what is known now.
        actor: The deciding person.
        at: When, UTC.
        policy: From which age an hour may be decided on.

    Raises:
        NoteMissingError: The note is empty.
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed.
        WindowStateError: It adds up and is about to be sealed.
        WindowNotOverdueError: It is tried again by itself, and not yet over its patience.
        WindowMeteredError: It is metered, so that there is nothing to estimate.
        WindowEndUnobservedError: It is to be accepted, and nothing can be observed after it.
        WindowChangedError: Something else is known of it now than was shown.
    """
    required_note(note)
    with transaction.atomic():
        window = _lock(window_id)
        if shown_digest and window.shown.get("digest", "") != shown_digest:
            raise WindowChangedError("Something else is known of the hour now than was shown.")
        [decided] = _decide(
            [window], decision=decision, note=note, actor=actor, at=at, policy=policy
        )
        refusal = refusal_of(
            decided.result, state=window.state, patience_seconds=policy.gap_patience_seconds
        )
        if refusal is not None:
            raise refusal
    window.refresh_from_db()
    return window


def decide_windows(  # noqa: PLR0913 - As above.
    *,
    window_ids: Sequence[int],
    decision: GapPolicy,
    note: str,
    shown_digest: str = "",
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> list[DecidedHour]:
    """Make one decision on many hours; return the result of each, in their order.

    One transaction for each batch of hours. Hours that are sealed or not yet over their patience
    are skipped and reported, and hours with the same decision stay as they are, so that the call
    may be repeated. With a digest, an hour whose facts differ once it is locked is skipped too.

    Args:
        window_ids: The hours.
        decision: The decision.
        note: Why.
        shown_digest: The digest of the preview that the person was shown; "" for none.
        actor: The deciding person.
        at: When, UTC.
        policy: From which age an hour may be decided on.

    Raises:
        NoteMissingError: The note is empty.
        WindowChangedError: The preview would show something else now; nothing was decided.
    """
    required_note(note)
    known: Mapping[int, PreviewedHour] | None = None
    if shown_digest:
        preview = preview_decision(
            MeteringWindow.objects.filter(id__in=window_ids),
            decision=decision,
            at=at,
            policy=policy,
        )
        if preview.digest != shown_digest:
            raise WindowChangedError("Something else is known of the hours now than was shown.")
        known = preview.known
    decided: list[DecidedHour] = []
    for first in range(0, len(window_ids), BATCH):
        batch = window_ids[first : first + BATCH]
        with transaction.atomic():
            windows = lock_rows(MeteringWindow.objects.filter(id__in=batch))
            decided += _decide(
                windows,
                decision=decision,
                note=note,
                actor=actor,
                at=at,
                policy=policy,
                known=known,
            )
    return sorted(decided, key=lambda hour: (hour.start_at, hour.window_id))


def waive_unmetered(*, actor: Actor, at: datetime) -> int:
    """Waive the hours from which on their cluster is no longer metered; return how many.

    What is sealed, or adds up and is about to be, stays metered. One cluster stops no other.
    """
    unmetered = MeteringWindow.objects.filter(
        state__in=[*NEEDS_REVIEW, *UNFINISHED], start_at__gte=F("cluster__metered_until")
    )
    return for_each_isolated(
        unmetered.order_by("cluster_id").values_list("cluster_id", flat=True).distinct(),
        lambda one: _waive_all(unmetered.filter(cluster_id=one), actor=actor, at=at),
        event="metering.waive.failed",
        at=at,
    )


def _waive_all(unmetered: QuerySet[MeteringWindow], *, actor: Actor, at: datetime) -> int:
    waived = 0
    while ids := list(unmetered.values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            windows = lock_rows(unmetered.filter(id__in=ids))
            now = min(at, database_now())
            if windows:
                _apply(windows, decision=GapPolicy.WAIVE, note=UNMETERED_NOTE, actor=actor, at=now)
        waived += len(windows)
    return waived


def _decide(  # noqa: PLR0913 - As above.
    windows: Sequence[MeteringWindow],
    *,
    decision: GapPolicy,
    note: str,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
    known: Mapping[int, PreviewedHour] | None = None,
) -> list[DecidedHour]:
    """Decide on locked windows, in a constant number of statements.

    Where it is known what was shown of them, an hour that would show something else is left alone.
    """
    now = min(at, database_now())
    overdue_before = now - WINDOW - timedelta(seconds=policy.gap_patience_seconds)
    decided = []
    for window in windows:
        hour = preview_hour(
            WindowState(window.state),
            in_force=window.gap_policy,
            decision=decision,
            is_overdue=window.start_at <= overdue_before,
            shown=window.shown,
        )
        is_changed = known is not None and known.get(window.id) != hour
        is_left = is_changed and hour.result is HourResult.DECIDED
        result = HourResult.CHANGED if is_left else hour.result
        decided.append(DecidedHour(window.id, window.start_at, result))
    chosen = {hour.window_id for hour in decided if hour.result is HourResult.DECIDED}
    rows = [window for window in windows if window.id in chosen]
    is_accepted = decision is GapPolicy.ACCEPT
    metered = [row for row in rows if is_accepted and row.state == WindowState.COLLECTED]
    for part in (metered, [row for row in rows if row not in metered]):
        if part:
            _apply(part, decision=decision, note=note, actor=actor, at=now)
    return decided


def _apply(
    windows: Sequence[MeteringWindow],
    *,
    decision: GapPolicy,
    note: str,
    actor: Actor,
    at: datetime,
) -> None:
    """Apply a decision to locked windows: all metered and accepted, or none of them."""
    ids = [window.id for window in windows]
    is_accepted = decision is GapPolicy.ACCEPT and windows[0].state == WindowState.COLLECTED
    is_waived = decision is GapPolicy.WAIVE
    is_settled = is_waived or is_accepted
    dissolve(ids)
    with connection.cursor() as cursor:
        if is_waived:
            cursor.execute(_FORGO_USAGE, [ids, [window.start_at for window in windows]])
            CapacityRecord.objects.filter(window_id__in=ids).delete()
        cursor.execute(
            _WAIVE if is_waived else _ACCEPT_METERED if is_accepted else _METER_AGAIN,
            {
                "ids": ids,
                "decision": decision.value,
                "at": at,
                "decided_at": at.isoformat(),
                "failures": LOOK_AHEAD_DOUBLINGS_MAX,
            },
        )
    kinds = (
        BLOCKING_KINDS if is_settled else {ExceptionKind.LOW_COVERAGE, ExceptionKind.QUARANTINED}
    )
    MeteringException.objects.filter(
        window_id__in=ids,
        kind__in=[kind.value for kind in kinds],
        state=ExceptionState.OPEN,
    ).update(
        state=ExceptionState.RESOLVED,
        resolved_at=at,
        resolved_by_id=actor.person_id,
        resolution=note.strip(),
    )
    after = WindowState.RECONCILED if is_settled else WindowState.OPEN
    record_each(
        actor=actor,
        at=at,
        action=f"metering:window:{decision.value}",
        object_kind="metering_window",
        facts={
            window.id: {
                **_facts(window, state=after.value, before=window.state, note=note),
                **({"shown": window.shown} if WindowState(window.state) in NEEDS_REVIEW else {}),
            }
            for window in windows
        },
    )


def _facts(window: MeteringWindow, *, state: str, before: str, note: str) -> dict[str, Any]:
    return {
        "cluster": str(window.cluster_id),
        "start_at": window.start_at.isoformat(),
        "state_before": before,
        "state": state,
        "note": note.strip(),
    }


def _lock(window_id: int) -> MeteringWindow:
    """Return a window that may still change, locked.

    Raises:
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed.
    """
    found = lock_rows(MeteringWindow.objects.filter(id=window_id))
    if not found:
        raise WindowNotFoundError("There is no such window.")
    if found[0].state == WindowState.SEALED:
        raise WindowSealedError("The window is sealed.")
    return found[0]
