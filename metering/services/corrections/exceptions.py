"""Resolving exceptions: by hand, or by accepting one source's evidence."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from metering.domain.collection.reconciliation import Side
from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy, WindowState, may_move
from metering.domain.corrections.correction import RecheckReason
from metering.domain.corrections.exceptions import SIDED_KINDS, WAITING_KINDS
from metering.domain.errors import (
    ExceptionNotSidedError,
    ExceptionResolvedError,
    MeteringExceptionNotFoundError,
    WindowDecisionRequiredError,
    WindowStateError,
    required_note,
)
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)
from metering.services.collection.division.leasing import dissolve
from metering.services.collection.findings import UNSEEN
from metering.services.corrections.rechecks import ask_recheck
from tenants.domain.actors import Actor
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record


def accept_side(
    *,
    exception_id: int,
    side: Side,
    note: str,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> MeteringException:
    """Accept one source's evidence in an exception, and bill it.

    An hour that is not sealed is metered again at once, with all its parts. A sealed one is
    rechecked, and a difference becomes a correction. The source's report when the exception was
    written is stored and billed, even if it changes later; a source that did not observe the pod
    then reports that it held nothing.

    Raises:
        NoteMissingError: The note is empty.
        MeteringExceptionNotFoundError: There is no such exception.
        ExceptionResolvedError: It is resolved already.
        ExceptionNotSidedError: It is not about two sources.
        WindowStateError: A worker collects the hour at the moment.
        WindowTooOldError: The hour is older than the sources' retention.
    """
    text = required_note(note)
    with transaction.atomic():
        window, found = _lock(exception_id)
        if window.state == WindowState.OPEN:
            # A part that is posted already was composed without the decision. Wait for one that is
            # just being posted before its exceptions are changed.
            dissolve([window.pk])
        pod_uid, _, resource = found.subject.partition(" ")
        ReconciliationDecision.objects.create(
            cluster_id=found.cluster_id,
            window_start=found.window_start,
            pod_uid=pod_uid,
            resource=resource,
            side=side.value,
            namespace=found.namespace,
            **_evidence(found.details, side=side),
            note=text,
            decided_by_id=actor.person_id,
            decided_at=at,
        )
        MeteringException.objects.filter(id=found.id).update(
            state=ExceptionState.RESOLVED,
            resolved_at=at,
            resolved_by_id=actor.person_id,
            resolution=text,
        )
        _meter_again(window, note=text, actor=actor, at=at, policy=policy)
        record(
            actor=actor,
            at=at,
            action="metering:exception:accept_evidence",
            object_kind="metering_exception",
            object_id=found.id,
            facts={
                "kind": found.kind,
                "subject": found.subject,
                "side": side.value,
                "held_unit_seconds": found.held_unit_seconds,
                "note": text,
            },
        )
    found.refresh_from_db()
    return found


def _evidence(details: Mapping[str, Any], *, side: Side) -> dict[str, Any]:
    """Return what a source reported of a pod, by column, from an exception's details."""
    known_as = details.get(f"{side.value}_known_as", UNSEEN)
    if known_as == UNSEEN:
        return {}
    end_at = details[f"{side.value}_end_at"]
    return {
        "known_as": known_as,
        "begin_at": datetime.fromisoformat(details[f"{side.value}_begin_at"]),
        "end_at": datetime.fromisoformat(end_at) if end_at else None,
        "slack_seconds": details[f"{side.value}_slack_seconds"],
        "units": details[f"{side.value}_units"],
    }


def _lock(exception_id: int) -> tuple[MeteringWindow, MeteringException]:
    """Return an open exception about two sources, and its window, locked.

    Raises:
        MeteringExceptionNotFoundError: There is no such exception.
        ExceptionResolvedError: It is resolved already.
        ExceptionNotSidedError: It is not about two sources.
    """
    window_id = (
        MeteringException.objects.filter(id=exception_id)
        .values_list("window_id", flat=True)
        .first()
    )
    if window_id is None:
        raise MeteringExceptionNotFoundError("There is no such exception.")
    [window] = lock_rows(MeteringWindow.objects.filter(id=window_id))
    found = MeteringException.objects.get(id=exception_id)
    if found.state != ExceptionState.OPEN:
        raise ExceptionResolvedError("The exception is resolved already.")
    if found.kind not in SIDED_KINDS:
        raise ExceptionNotSidedError(
            "The exception is not about what two sources tell.", facts={"kind": found.kind}
        )
    return window, found


def _meter_again(
    window: MeteringWindow, *, note: str, actor: Actor, at: datetime, policy: MeteringPolicy
) -> None:
    """Apply the decision; a window that needs review stays in review.

    Raises:
        WindowStateError: A worker collects the hour at the moment, perhaps without the decision.
        WindowTooOldError: The hour is older than the sources' retention.
    """
    state = WindowState(window.state)
    if state is WindowState.SEALED:
        ask_recheck(
            window_id=window.id,
            reason=RecheckReason.DECISION,
            note=note,
            actor=actor,
            at=at,
            policy=policy,
        )
    elif state is WindowState.OPEN:
        # While all its parts were leased it was due again when the first lease ends.
        MeteringWindow.objects.filter(id=window.id).update(not_before=at)
    elif state is WindowState.COLLECTING:
        raise WindowStateError(
            "A worker collects the window at the moment.", facts={"state": state.value}
        )
    elif state in {WindowState.COLLECTED, WindowState.RECONCILED}:
        assert may_move(state, after=WindowState.OPEN)  # noqa: S101 - The table of moves says so.
        MeteringWindow.objects.filter(id=window.id).update(
            state=WindowState.OPEN, not_before=at, attempt=0, failures=0
        )


def resolve_exception(
    *, exception_id: int, note: str, actor: Actor, at: datetime
) -> MeteringException:
    """Resolve an exception by hand; its held unit-seconds stay unbilled.

    An exception that blocks its window is resolved by the decision on the window.

    Raises:
        NoteMissingError: The note is empty.
        WindowDecisionRequiredError: Its window waits for it.
        MeteringExceptionNotFoundError: There is no such exception.
        ExceptionResolvedError: It is resolved already.
    """
    text = required_note(note)
    with transaction.atomic():
        asked = MeteringException.objects.filter(id=exception_id, state=ExceptionState.OPEN)
        if asked.filter(kind__in=[kind.value for kind in WAITING_KINDS]).exists():
            raise WindowDecisionRequiredError("The hour was not metered.")
        changed = MeteringException.objects.filter(
            id=exception_id, state=ExceptionState.OPEN
        ).update(
            state=ExceptionState.RESOLVED,
            resolved_at=at,
            resolved_by_id=actor.person_id,
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
