"""Decisions: what only a person can decide about a window that metering gave up on."""

from datetime import datetime

from django.db import transaction
from django.db.models.functions import Coalesce

from metering.domain.errors import (
    NoteMissingError,
    WindowNotFoundError,
    WindowSealedError,
    WindowStateError,
)
from metering.domain.exceptions import BLOCKING_KINDS, ExceptionKind
from metering.domain.policy import LOOK_AHEAD_DOUBLINGS_MAX, GapPolicy
from metering.domain.window_state import WindowState, may_move
from metering.models import CapacityRecord, MeteringWindow, UsageRecord
from metering.services.exceptions import resolve_of_window
from tenants.domain.actors import Actor
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record

_WAITING = (WindowState.GAP, WindowState.QUARANTINED)


def retry_window(*, window_id: int, note: str = "", actor: Actor, at: datetime) -> MeteringWindow:
    """Make a window that is not sealed due now, with all its attempts before it.

    What a person accepted before is to be accepted anew.

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
        _update(
            window,
            state=WindowState.OPEN,
            accepts_low_coverage=False,
            gap_policy="",
            not_before=at,
            attempt=0,
            failures=0,
        )
        _audit(window, verb="retry", before=before, note=note, actor=actor, at=at)
    return window


def release_gap(
    *, window_id: int, decision: GapPolicy, note: str, actor: Actor, at: datetime
) -> MeteringWindow:
    """Decide on a window that waits for a person.

    A waived window loses what an earlier attempt may have recorded, and the next sweep seals it
    empty. Any other decision meters it again, looking far enough ahead to see what outlived the
    outage: accepted, it bills what was seen; as last known, what was held before the hole until
    the first evidence after it; held, it keeps all of that in exceptions.

    Raises:
        NoteMissingError: The note is empty.
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed.
        WindowStateError: It does not wait for a person.
    """
    if not note.strip():
        raise NoteMissingError("The decision has no reason.", field="note")
    with transaction.atomic():
        window = _lock(window_id)
        before = WindowState(window.state)
        if before not in _WAITING:
            raise WindowStateError(
                "The window does not wait for a decision.", facts={"state": before.value}
            )
        if decision is GapPolicy.WAIVE:
            _waive(window, at=at)
            kinds = BLOCKING_KINDS
        else:
            _meter_again(window, decision=decision, before=before, at=at)
            kinds = frozenset({ExceptionKind.LOW_COVERAGE, ExceptionKind.QUARANTINED})
        resolve_of_window(window.id, kinds=kinds, note=note, actor=actor, at=at)
        _audit(window, verb=decision.value, before=before, note=note, actor=actor, at=at)
    return window


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


def _meter_again(
    window: MeteringWindow, *, decision: GapPolicy, before: WindowState, at: datetime
) -> None:
    """Meter a window again; only of a gap does anybody know how little was seen."""
    _update(
        window,
        state=WindowState.OPEN,
        accepts_low_coverage=before is WindowState.GAP or window.accepts_low_coverage,
        gap_policy=decision.value,
        not_before=at,
        attempt=0,
        failures=LOOK_AHEAD_DOUBLINGS_MAX,
    )


def _waive(window: MeteringWindow, *, at: datetime) -> None:
    UsageRecord.objects.filter(window_id=window.id, window_start=window.start_at).delete()
    CapacityRecord.objects.filter(window_id=window.id).delete()
    _update(
        window,
        state=WindowState.RECONCILED,
        gap_policy=GapPolicy.WAIVE.value,
        not_before=at,
        record_count=0,
        as_of=Coalesce("as_of", at),
    )


def _update(window: MeteringWindow, **fields: object) -> None:
    MeteringWindow.objects.filter(id=window.id).update(**fields)
    window.refresh_from_db()


def _audit(
    window: MeteringWindow,
    *,
    verb: str,
    before: WindowState,
    note: str,
    actor: Actor,
    at: datetime,
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"metering:window:{verb}",
        object_kind="metering_window",
        object_id=window.id,
        facts={
            "cluster": str(window.cluster_id),
            "start_at": window.start_at.isoformat(),
            "state_before": before.value,
            "state": window.state,
            "note": note.strip(),
        },
    )
