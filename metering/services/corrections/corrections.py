"""Corrections: requested, approved or rejected by people, and written as records, all or nothing.

Where the site requires four eyes, a second person approves what the first requested; proposals of
rechecks always need approval.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from metering.domain.collection.windows import WINDOW, WindowState
from metering.domain.corrections.correction import (
    CorrectionCause,
    CorrectionState,
    digest_of_lines,
    stays_above_zero,
)
from metering.domain.errors import (
    CorrectionBelowZeroError,
    CorrectionDecidedError,
    CorrectionEmptyError,
    CorrectionFourEyesError,
    CorrectionNotFoundError,
    CorrectionStaleError,
    CorrectionTooLargeError,
    NoteMissingError,
    WindowNotSealedError,
)
from metering.models import MeteringWindow, UsageCorrection, UsageRecord
from metering.selectors.collection.record_digest import capacity_digest
from metering.selectors.corrections.corrections import (
    LINE_TYPES,
    LedgerFact,
    Line,
    ledger_of_window,
)
from metering.services.corrections.releasing import resolve_released
from tenants.domain.actors import Actor
from tenants.services.audit import record as tell

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
        asked_by=actor.label,
        asked_by_id=actor.id,
        asked_at=at,
    )
    if state is CorrectionState.POSTED:
        row.decided_by, row.decided_by_id, row.decided_at = actor.label, actor.id, at
    return row


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
    """Request a correction of one pod's use in one sealed hour; without four eyes it is posted.

    Args:
        record: Any revision of what is corrected.
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
    text = _required(reason, field="reason")
    with transaction.atomic():
        window = MeteringWindow.objects.select_for_update().get(pk=record.window_id)
        if window.state != WindowState.SEALED:
            raise WindowNotSealedError(
                f"The window is {window.state}, not sealed.", facts={"state": window.state}
            )
        key = (record.pod_uid, record.resource)
        fact = ledger_of_window(window.pk, start_at=window.start_at, key=key)[key]
        is_retraction = unit_seconds is None
        delta = -fact.unit_seconds if unit_seconds is None else unit_seconds
        line = _line(fact, delta=delta, is_retraction=is_retraction)
        draft = Draft(
            window=window,
            cause=CorrectionCause.RETRACTION if is_retraction else CorrectionCause.MANUAL,
            reason=text,
            lines=[line],
        )
        state = CorrectionState.PROPOSED if is_four_eyes else CorrectionState.POSTED
        (made,) = write_drafts([draft], state=state, actor=actor, at=at)
        _tell(made, verb="ask" if is_four_eyes else "post", actor=actor, at=at)
    return made


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
        if is_four_eyes and correction.asked_by_id == actor.id:
            raise CorrectionFourEyesError(
                "Who asked for a correction may not approve it.",
                facts={"asked_by": correction.asked_by},
            )
        ledger = ledger_of_window(correction.window_id, start_at=correction.window_start)
        require_fresh(correction.lines, ledger=ledger)
        require_above_zero(correction.lines)
        _decide(correction, state=CorrectionState.POSTED, note=note.strip(), actor=actor, at=at)
        write_records([correction.pk])
        resolve_released(correction.window_id, corrections=[correction], at=at)
        _tell(correction, verb="post", actor=actor, at=at)
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
    text = _required(note, field="note")
    with transaction.atomic():
        correction = _lock_proposed(correction_id)
        _decide(correction, state=CorrectionState.REJECTED, note=text, actor=actor, at=at)
        _tell(correction, verb="reject", actor=actor, at=at)
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


def _tell(correction: UsageCorrection, *, verb: str, actor: Actor, at: datetime) -> None:
    facts = {
        **facts_of(correction),
        "reason": correction.reason,
        "note": correction.decision_note,
    }
    if correction.state == CorrectionState.POSTED:
        facts["capacity_digest"] = capacity_digest(correction.window_id)
    tell(
        actor=actor,
        at=at,
        action=f"metering:correction:{verb}",
        object_kind="usage_correction",
        object_id=correction.pk,
        organization_id=correction.organization_id,
        facts=facts,
    )


def _required(text: str, *, field: str) -> str:
    stripped = text.strip()
    if not stripped:
        raise NoteMissingError("The decision has no reason.", field=field)
    return stripped
