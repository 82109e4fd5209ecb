"""Reminders of overdue invoices, level by level, and stops of them by people."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from billing.domain.documents.document_text import money_text
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState
from billing.domain.errors import required_reason
from billing.domain.ledger.errors import ReminderStopError
from billing.models import Invoice, Reminder, ReminderStop
from billing.selectors.ledger.settlement import DUE, OF_NOTE
from billing.selectors.locks import lock_invoice
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import Role
from tenants.services.audit import record
from tenants.services.notifications.outbox import OrganizationNews, notify_organizations

REMINDERS_MAX: Final = 1_000
"""That one run writes; the next one takes the rest."""


@dataclass(frozen=True)
class OverdueDocument:
    """What is reminded of; `address` is the recipient's, or ""."""

    reminder_id: UUID
    organization_id: UUID
    reference: str
    due_on: date
    level: int
    days_overdue: int
    open_amount: Decimal
    currency: str
    address: str


def remind_overdue(*, days: Sequence[int], actor: Actor, at: datetime) -> int:
    """Remind of overdue invoices that have reached their next level; return of how many.

    An invoice gets at most one level a day, in order, and none once it is paid or written off, or
    while it is disputed or its reminders are stopped. The number of statements does not depend on
    that of invoices.

    Args:
        days: After the due date, by level; none for no reminders.
        actor: The account that reminds.
        at: When.
    """
    if not days:
        return 0
    with transaction.atomic():
        with connection.cursor() as cursor:
            values: dict[str, Any] = {
                "days": list(days),
                "on": at.date(),
                "at": at,
                "most": REMINDERS_MAX,
            }
            cursor.execute(_REMIND, values)
            overdue = [OverdueDocument(*row) for row in cursor.fetchall()]
        news = [_news(row, levels=len(days)) for row in overdue]
        if news:
            notify_organizations(
                event="billing:invoice:overdue", news=news, role=Role.ORGANIZATION_ADMIN, at=at
            )
            record(
                actor=actor,
                at=at,
                action="billing:reminder:send",
                object_kind="reminder",
                object_id="",
                facts={"reminders": len(news)},
            )
    return len(news)


def stop_reminders(*, document_id: UUID, reason: str, actor: Actor, at: datetime) -> ReminderStop:
    """Remind of a document no more until that is continued.

    Args:
        document_id: A final invoice or debit note.
        reason: Why.
        actor: The account that decides it.
        at: When.

    Raises:
        ReasonMissingError: There is no reason.
        ReminderStopError: It is stopped already, or there are no reminders of such a document.
    """
    why = required_reason(reason)
    with transaction.atomic():
        document = lock_invoice(document_id)
        is_owed = document.state == InvoiceState.FINAL.value and document.kind in OWED_KINDS
        if not is_owed or document.reminder_stops.filter(continued_at=None).exists():
            raise ReminderStopError("Reminders of the document cannot be stopped.")
        made = ReminderStop.objects.create(
            document=document, reason=why, stopped_by=actor.label, stopped_at=at
        )
        _audit(made, document, action="stop", reason=why, actor=actor, at=at)
    return made


def continue_reminders(*, stop_id: UUID, reason: str, actor: Actor, at: datetime) -> ReminderStop:
    """End a stop: the next level follows once its days have passed.

    Raises:
        ReasonMissingError: There is no reason.
        ReminderStopError: It is continued already.
    """
    why = required_reason(reason)
    with transaction.atomic():
        document = lock_invoice(ReminderStop.objects.get(pk=stop_id).document_id)
        stop = ReminderStop.objects.get(pk=stop_id)
        if stop.continued_at is not None:
            raise ReminderStopError("The stop is continued already.")
        stop.continue_reason, stop.continued_by, stop.continued_at = why, actor.label, at
        stop.save(update_fields=["continue_reason", "continued_by", "continued_at"])
        _audit(stop, document, action="continue", reason=why, actor=actor, at=at)
    return stop


def _news(row: OverdueDocument, *, levels: int) -> OrganizationNews:
    amount = money_text(row.open_amount, row.currency)
    return OrganizationNews(
        organization_id=row.organization_id,
        subject=f"Reminder {row.level} of {levels}: {row.reference} is overdue",
        text=(
            f"{row.reference} was due on {row.due_on}, {row.days_overdue} days ago. {amount} of it "
            "are open. If you have paid in the meantime, no action is required."
        ),
        facts={
            "reference": row.reference,
            "level": row.level,
            "due_on": row.due_on.isoformat(),
            "days_overdue": row.days_overdue,
            "open_amount": str(row.open_amount),
            "currency": row.currency,
        },
        key=Reminder(pk=row.reminder_id).notification_key,
        addresses=(row.address,) if row.address else (),
    )


def _audit(
    stop: ReminderStop,
    document: Invoice,
    *,
    action: str,
    reason: str,
    actor: Actor,
    at: datetime,
) -> None:
    facts: dict[str, Any] = {"document": str(document.pk), "reason": reason}
    record(
        actor=actor,
        at=at,
        action=f"billing:reminder_stop:{action}",
        object_kind="reminder_stop",
        object_id=stop.pk,
        organization_id=document.organization_id,
        facts=facts,
    )


# Two runs at once: the keys let one of them write a level or a day of an invoice.
_REMIND: Final = f"""
WITH owed AS (
  SELECT i.id, i.organization_id, i.document ->> 'reference' AS reference, d.due_on,
         coalesce(sent.level, 0) + 1 AS level, %(on)s - d.due_on AS days_overdue,
         {DUE}
         + (SELECT coalesce(sum({OF_NOTE}), 0) FROM billing_invoice n
             WHERE n.corrects_id = i.id AND n.state = 'final' AND n.kind = 'credit_note')
         - (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
             WHERE a.document_id = i.id)
         - (SELECT coalesce(sum(w.amount), 0) FROM billing_writeoff w
             WHERE w.document_id = i.id AND w.state = 'posted') AS open_amount,
         i.currency, coalesce(r.email, '') AS address
    FROM billing_duedate d
    JOIN billing_invoice i ON i.id = d.document_id
    LEFT JOIN billing_recipient r ON r.id = i.recipient_id
    LEFT JOIN LATERAL (SELECT max(s.level) AS level, max(s.reminded_on) AS reminded_on
                         FROM billing_reminder s WHERE s.document_id = i.id) sent ON true
   WHERE i.state = 'final'
     AND %(on)s - d.due_on >= (%(days)s::int[])[coalesce(sent.level, 0) + 1]
     AND sent.reminded_on IS DISTINCT FROM %(on)s
     AND NOT EXISTS (SELECT FROM billing_dispute q
                      WHERE q.document_id = i.id AND q.state = 'open')
     AND NOT EXISTS (SELECT FROM billing_reminderstop s
                      WHERE s.document_id = i.id AND s.continued_at IS NULL)),
due AS MATERIALIZED (
  SELECT * FROM owed WHERE open_amount > 0 ORDER BY due_on, id LIMIT %(most)s),
sent AS (
  INSERT INTO billing_reminder
    (id, document_id, level, days_overdue, open_amount, reminded_on, created_at)
  SELECT gen_random_uuid(), id, level, days_overdue, open_amount, %(on)s, %(at)s FROM due
  ON CONFLICT DO NOTHING
  RETURNING id, document_id)
SELECT sent.id, due.organization_id, due.reference, due.due_on, due.level, due.days_overdue,
       due.open_amount, due.currency, due.address
  FROM sent JOIN due ON due.id = sent.document_id
 ORDER BY due.due_on, due.id
"""  # noqa: S608 - Put together from constants only.
