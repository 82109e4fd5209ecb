"""Review of corrections: a person requests one; people approve or reject it.

Where the site requires four eyes, a second person approves what the first requested; proposals of
rechecks always need approval.
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from metering.domain.collection.windows import WINDOW, WindowState
from metering.domain.corrections.correction import CorrectionCause, CorrectionState
from metering.domain.errors import (
    CorrectionDecidedError,
    CorrectionEmptyError,
    CorrectionFourEyesError,
    CorrectionNotFoundError,
    CorrectionTooLargeError,
    WindowNotSealedError,
    required_note,
)
from metering.models import MeteringWindow, UsageCorrection, UsageRecord
from metering.selectors.collection.record_digest import capacity_digest
from metering.selectors.corrections.ledger import LedgerFact, Line, ledger_of_window
from metering.services.corrections.posting import (
    Draft,
    facts_of,
    require_above_zero,
    require_fresh,
    resolve_released,
    write_drafts,
    write_records,
)
from tenants.domain.actors import Actor
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows
from tenants.services.audit import record as record_entry

WINDOW_SECONDS = int(WINDOW.total_seconds())


def ask_correction(
    *,
    record: UsageRecord,
    unit_seconds: int | None,
    reason: str,
    is_four_eyes: bool,
    actor: Actor,
    at: datetime,
) -> UsageCorrection:
    """Request a correction of one pod's use in one sealed hour; posted at once without four eyes.

    Args:
        record: The usage record to correct; any revision of it.
        unit_seconds: What is added, negative to take away; None retracts all there is.
        reason: Why; goes into the audit trail and stays with the correction.
        is_four_eyes: Whether another person has to approve it.
        actor: The person who requests it.
        at: When.

    Raises:
        NoteMissingError: The reason is empty.
        WindowNotSealedError: The hour is not sealed; metering it again replaces all of it.
        CorrectionEmptyError: It would change nothing.
        CorrectionBelowZeroError: It takes away more than all revisions add up to.
        CorrectionTooLargeError: It adds more than the pod's units could use in an hour.
    """
    text = required_note(reason, field="reason")
    with transaction.atomic():
        window = MeteringWindow.objects.select_for_update().get(pk=record.window_id)
        is_retraction = unit_seconds is None
        draft = Draft(
            window=window,
            cause=CorrectionCause.RETRACTION if is_retraction else CorrectionCause.MANUAL,
            reason=text,
            lines=[_line_of(record, window, unit_seconds=unit_seconds)],
        )
        state = CorrectionState.PROPOSED if is_four_eyes else CorrectionState.POSTED
        (made,) = write_drafts([draft], state=state, actor=actor, at=at)
        _audit(made, verb="ask" if is_four_eyes else "post", actor=actor, at=at)
    return made


def preview_correction(*, record: UsageRecord, unit_seconds: int | None) -> Line:
    """Return what requesting a correction would write; nothing is written.

    `basis` are the unit-seconds before, `unit_seconds` what is added to them.

    Args:
        record: The usage record; any revision of it.
        unit_seconds: As for `ask_correction`, which refuses the same.

    Raises:
        WindowNotSealedError: The hour is not sealed.
        CorrectionEmptyError: It would change nothing.
        CorrectionBelowZeroError: It takes away more than all revisions add up to.
        CorrectionTooLargeError: It adds more than the pod's units could use in an hour.
    """
    line = _line_of(record, record.window, unit_seconds=unit_seconds)
    require_above_zero([line])
    return line


def _line_of(record: UsageRecord, window: MeteringWindow, *, unit_seconds: int | None) -> Line:
    """Return the record of a correction by a person.

    Raises:
        WindowNotSealedError: The hour is not sealed.
        MonthArchivedError: The usage of its month is in an archive.
        CorrectionEmptyError: It would change nothing.
        CorrectionTooLargeError: It adds more than the pod's units could use in an hour.
    """
    if window.state != WindowState.SEALED:
        raise WindowNotSealedError(
            f"The window is {window.state}, not sealed.", facts={"state": window.state}
        )
    require_rows(ArchivedTable.USAGE, begin_at=window.start_at, end_at=window.start_at + WINDOW)
    key = (record.pod_uid, record.resource)
    fact = ledger_of_window(window.pk, start_at=window.start_at, key=key)[key]
    is_retraction = unit_seconds is None
    delta = -fact.unit_seconds if unit_seconds is None else unit_seconds
    return _line(fact, delta=delta, is_retraction=is_retraction)


def _line(fact: LedgerFact, *, delta: int, is_retraction: bool) -> Line:
    """Return the record of a correction by a person.

    Raises:
        CorrectionEmptyError: It would change nothing.
        CorrectionTooLargeError: It adds more than the pod's units could use in an hour.
    """
    if delta == 0:
        raise CorrectionEmptyError("The correction changes nothing.", field="unit_seconds")
    most = fact.line["units"] * WINDOW_SECONDS
    if delta > 0 and fact.unit_seconds + delta > most:
        raise CorrectionTooLargeError(
            f"{fact.line['units']} units use at most {most} unit-seconds in an hour.",
            field="unit_seconds",
            facts={"unit_seconds_max": most - fact.unit_seconds},
        )
    line = {
        **fact.line,
        "unit_seconds": delta,
        "basis": fact.unit_seconds,
    }
    if is_retraction:
        line |= {"end_at": fact.line["begin_at"], "seconds": 0}
    return line


def approve_correction(
    *, correction_id: UUID, note: str = "", is_four_eyes: bool, actor: Actor, at: datetime
) -> UsageCorrection:
    """Post a proposed correction: its records are written, and billing charges them.

    Raises:
        CorrectionNotFoundError: There is none.
        CorrectionDecidedError: It is posted or rejected already.
        CorrectionFourEyesError: The actor requested it, and the site requires four eyes.
        CorrectionStaleError: The records have changed since it was requested.
        CorrectionBelowZeroError: It takes away more than there is.
    """
    with transaction.atomic():
        correction = _lock_proposed(correction_id)
        if is_four_eyes and correction.requested_by_id == actor.id:
            raise CorrectionFourEyesError(
                "The requester of a correction may not approve it.",
                facts={"requested_by": correction.requested_by},
            )
        ledger = ledger_of_window(correction.window_id, start_at=correction.window_start)
        require_fresh(correction.lines, ledger=ledger)
        require_above_zero(correction.lines)
        _decide(correction, state=CorrectionState.POSTED, note=note.strip(), actor=actor, at=at)
        write_records([correction.pk])
        resolve_released(correction.window_id, corrections=[correction], at=at)
        _audit(correction, verb="post", actor=actor, at=at)
    return correction


def reject_correction(
    *, correction_id: UUID, note: str, actor: Actor, at: datetime
) -> UsageCorrection:
    """Reject a proposed correction with a reason; a recheck does not propose it again.

    Raises:
        NoteMissingError: The note is empty.
        CorrectionNotFoundError: There is none.
        CorrectionDecidedError: It is posted or rejected already.
    """
    text = required_note(note, field="note")
    with transaction.atomic():
        correction = _lock_proposed(correction_id)
        _decide(correction, state=CorrectionState.REJECTED, note=text, actor=actor, at=at)
        _audit(correction, verb="reject", actor=actor, at=at)
    return correction


def _lock_proposed(correction_id: UUID) -> UsageCorrection:
    """Lock the window, then an undecided correction, and return the correction.

    Raises:
        CorrectionNotFoundError: There is none.
        CorrectionDecidedError: It is posted or rejected already.
    """
    rows = UsageCorrection.objects.filter(pk=correction_id)
    window_id = rows.values_list("window_id", flat=True).first()
    if window_id is None:
        raise CorrectionNotFoundError("There is no such correction.")
    MeteringWindow.objects.select_for_update().get(pk=window_id)
    correction = rows.select_for_update().get()
    if correction.state != CorrectionState.PROPOSED:
        raise CorrectionDecidedError(
            f"The correction is {correction.state} already.", facts={"state": correction.state}
        )
    return correction


def _decide(
    correction: UsageCorrection, *, state: CorrectionState, note: str, actor: Actor, at: datetime
) -> None:
    correction.state, correction.decision_note = state.value, note
    correction.decided_by, correction.decided_by_id = actor.label, actor.id
    correction.decided_at = at
    correction.version += 1
    correction.save(
        update_fields=[
            "state",
            "decision_note",
            "decided_by",
            "decided_by_id",
            "decided_at",
            "version",
        ]
    )


def _audit(correction: UsageCorrection, *, verb: str, actor: Actor, at: datetime) -> None:
    facts = {
        **facts_of(correction),
        "reason": correction.reason,
        "note": correction.decision_note,
    }
    if correction.state == CorrectionState.POSTED:
        facts["capacity_digest"] = capacity_digest(correction.window_id)
    record_entry(
        actor=actor,
        at=at,
        action=f"metering:correction:{verb}",
        object_kind="usage_correction",
        object_id=correction.pk,
        organization_id=correction.organization_id,
        facts=facts,
    )
