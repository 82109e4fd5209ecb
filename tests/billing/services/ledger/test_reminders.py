"""Reminders: one level a day, in order, of what is open and not stopped, by a few statements."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from billing.domain.errors import ReasonMissingError
from billing.domain.ledger.errors import ReminderStopError
from billing.models import DueDate, Invoice, Reminder, ReminderStop
from billing.services.disputes import open_dispute, withdraw_dispute
from billing.services.ledger.reminders import (
    continue_reminders,
    remind_overdue,
    stop_reminders,
)
from billing.services.ledger.write_offs import propose_write_off
from tenants.models import AuditEntry, Membership, Notification, NotificationDelivery
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, TICK, Ledger, month_of_use
from tests.support.billing.payments import pay
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

DAYS = (7, 21, 35)


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def overdue(invoice: Invoice, days: int) -> datetime:
    """Return noon of a day after the due date."""
    due_on = DueDate.objects.get(document=invoice).due_on
    return datetime.combine(due_on, datetime.min.time(), tzinfo=AT.tzinfo) + timedelta(
        days=days, hours=12
    )


def remind(at: datetime) -> list[tuple[str, int]]:
    """Sweep, and return reference and level of what was reminded of."""
    before = set(Reminder.objects.values_list("pk", flat=True))
    count = remind_overdue(days=DAYS, actor=TICK, at=at)
    made = Reminder.objects.exclude(pk__in=before).select_related("document__period")
    assert len(made) == count
    return sorted((row.document.reference, row.level) for row in made)


def test_each_level_is_reached_once_on_its_day(final: Invoice) -> None:
    reached = {days: remind(overdue(final, days)) for days in (0, 6, 7, 8, 20, 21, 35, 90)}

    assert {days: [level for _, level in rows] for days, rows in reached.items() if rows} == {
        7: [1],
        21: [2],
        35: [3],
    }
    last = Reminder.objects.get(level=3)
    assert (last.days_overdue, last.open_amount) == (35, final.payable)
    assert AuditEntry.objects.filter(action="billing:reminder:send").count() == 3


def test_no_invoice_gets_two_levels_on_a_day(final: Invoice) -> None:
    at = overdue(final, 40)

    levels = [remind(when) for when in (at, at, at + timedelta(days=1))]

    assert levels == [[(final.reference, 1)], [], [(final.reference, 2)]]


def test_what_is_disputed_or_written_off_is_not_reminded_of(final: Invoice) -> None:
    dispute = open_dispute(document_id=final.pk, amounts={}, reason="Not ours.", actor=DORA, at=AT)
    assert remind(overdue(final, 7)) == []
    withdraw_dispute(dispute_id=dispute.pk, reason="Ours.", actor=DORA, at=AT)
    assert remind(overdue(final, 8)) == [(final.reference, 1)]
    propose_write_off(
        document_id=final.pk, reason="Insolvent.", is_four_eyes=False, actor=DORA, at=AT
    )
    assert remind(overdue(final, 21)) == []


def test_what_is_paid_is_not_reminded_of_and_a_part_is_for_its_rest(final: Invoice) -> None:
    pay(amount="1.25", remittance=final.reference)
    remind(overdue(final, 7))
    assert Reminder.objects.get().open_amount == Decimal("0.75")

    pay("B2", amount="0.75", remittance=final.reference)

    assert remind(overdue(final, 90)) == []


def test_without_days_there_are_no_reminders(final: Invoice) -> None:
    assert remind_overdue(days=(), actor=TICK, at=overdue(final, 90)) == 0
    assert not Reminder.objects.exists()


def test_the_organizations_administrators_are_mailed(final: Invoice) -> None:
    people = [User.objects.create_user(name, f"{name}@example.test") for name in ("ann", "bea")]
    for person in people:
        Membership.objects.create(
            user=person,
            role="organization_admin",
            organization=final.organization,
            created_at=AT,
        )
    User.objects.filter(username="bea").update(is_active=False)

    remind(overdue(final, 8))

    notification = Notification.objects.get(event="billing:invoice:overdue")
    assert notification.subject == f"Reminder 1 of 3: {final.reference} is overdue"
    assert "8 days ago. 2.00 EUR of it are open." in notification.text
    assert notification.facts["level"] == 1
    assert list(NotificationDelivery.objects.values_list("address", flat=True)) == [
        "ann@example.test"
    ]


def test_more_invoices_take_no_more_statements(final: Invoice) -> None:
    def statements(at: datetime) -> int:
        with CaptureQueriesContext(connection) as caught:
            remind(at)
        return len(caught)

    one = statements(overdue(final, 7))
    others = [
        finalize(draft(month_of_use([("x", 3600)], slug=slug).organization, "2026-10"))
        for slug in ("umbrella", "cyberdyne", "initech")
    ]

    assert statements(overdue(final, 21)) == one
    assert Reminder.objects.filter(document__in=[final, *others]).count() == 5


def test_reminders_are_stopped_and_continued_with_a_reason(final: Invoice) -> None:
    with pytest.raises(ReasonMissingError):
        stop_reminders(document_id=final.pk, reason=" ", actor=DORA, at=AT)
    stop = stop_reminders(document_id=final.pk, reason="They pay later.", actor=DORA, at=AT)
    with pytest.raises(ReminderStopError):
        stop_reminders(document_id=final.pk, reason="Again.", actor=DORA, at=AT)
    assert remind(overdue(final, 90)) == []

    continue_reminders(stop_id=stop.pk, reason="They do not.", actor=DORA, at=AT)

    with pytest.raises(ReminderStopError):
        continue_reminders(stop_id=stop.pk, reason="Again.", actor=DORA, at=AT)
    assert remind(overdue(final, 90)) == [(final.reference, 1)]
    stop.refresh_from_db()
    assert (stop.reason, stop.continue_reason) == ("They pay later.", "They do not.")


def test_reminders_of_a_draft_cannot_be_stopped(ledger: Ledger) -> None:
    with pytest.raises(ReminderStopError):
        stop_reminders(
            document_id=draft(ledger.organization, "2026-10").pk, reason="x", actor=DORA, at=AT
        )
    assert not ReminderStop.objects.exists()


def test_the_database_keeps_reminders_and_stops(final: Invoice) -> None:
    stop = stop_reminders(document_id=final.pk, reason="They pay later.", actor=DORA, at=AT)
    continue_reminders(stop_id=stop.pk, reason="They do not.", actor=DORA, at=AT)
    remind(overdue(final, 7))

    with pytest.raises(DatabaseError), transaction.atomic():
        Reminder.objects.update(level=2)
    with pytest.raises(DatabaseError), transaction.atomic():
        ReminderStop.objects.update(reason="Another.")
    with pytest.raises(DatabaseError), transaction.atomic():
        ReminderStop.objects.update(continue_reason="Another.")
