"""Every call of the journal and beside final documents: who does it, and the entries it leaves."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.adapters.journal_layouts import GenericCsvLayout
from billing.domain.ledger.bank_rows import BankFile
from billing.models import Payment, Reminder
from billing.services import disputes
from billing.services.ledger import (
    batches,
    deliveries,
    journal,
    opening_balances,
    payments,
    reminders,
    settling,
    write_offs,
)
from tenants.domain.actors import Actor
from tenants.models import Notification, NotificationDelivery
from tenants.selectors.actors import actor_of_user
from tests.support.billing.payments import bank_row
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.flows.estate import Estate

Does = Callable[[Estate, Any], object]


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


def _allocate(estate: Estate, **who: Any) -> Payment:  # noqa: ANN401 - Actor and time.
    own = estate.places["own"]
    return settling.allocate_payment(payment_id=own["payments"], document_id=own["final"], **who)


def alice(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.alice)


def _sent(estate: Estate, *, actor: Actor, at: datetime) -> int:
    """Send a reminder, and record that it was sent."""
    reminder = Reminder.objects.get(pk=estate.places["own"]["reminders"])
    notification = Notification.objects.create(
        event="billing:invoice:overdue",
        subject="Reminder",
        text="Reminder.",
        key=reminder.notification_key,
        occurred_at=at,
    )
    NotificationDelivery.objects.create(
        notification=notification,
        kind="mail",
        address="ann@example.test",
        state="sent",
        next_at=at,
        sent_at=at,
        created_at=at,
    )
    return deliveries.record_sent_mails(actor=actor, at=at)


LEDGER_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "billing.ledger.payments.record_payment": (
        dora,
        lambda e, who: payments.record_payment(
            row=bank_row("new"), organization_id=e.cast.acme.pk, **who
        ),
        [("billing:payment:record", "acme")],
    ),
    "billing.ledger.payments.import_payments": (
        dora,
        lambda _, who: payments.import_payments(bank_file=BankFile([bank_row("new")]), **who),
        [("billing:payment:import", None)],
    ),
    "billing.ledger.opening_balances.record_opening_balance": (
        dora,
        lambda e, who: opening_balances.record_opening_balance(
            organization=e.cast.acme,
            reference="new",
            amount=Decimal(1),
            currency="EUR",
            dated_on=AT.date(),
            due_on=AT.date(),
            **who,
        ),
        [("billing:opening_balance:record", "acme")],
    ),
    "billing.ledger.deliveries.record_delivery": (
        dora,
        lambda e, who: deliveries.record_delivery(
            document_id=e.places["own"]["final"],
            channel="post",
            recipient="Acme, Main Street 1",
            sent_at=who["at"],
            **who,
        ),
        [("billing:document_delivery:record", "acme")],
    ),
    "billing.ledger.deliveries.record_sent_mails": (
        dora,
        lambda e, who: _sent(e, **who),
        [("billing:document_delivery:record_sent", None)],
    ),
    "billing.ledger.reminders.remind_overdue": (
        dora,
        lambda _, who: reminders.remind_overdue(days=[7, 14], **who),
        [("billing:reminder:send", None)],
    ),
    "billing.ledger.reminders.stop_reminders": (
        dora,
        lambda e, who: reminders.stop_reminders(
            document_id=e.places["own"]["final"], reason="They pay later.", **who
        ),
        [("billing:reminder_stop:stop", "acme")],
    ),
    "billing.ledger.reminders.continue_reminders": (
        dora,
        lambda e, who: reminders.continue_reminders(
            stop_id=e.places["own"]["reminder-stops"], reason="They do not.", **who
        ),
        [("billing:reminder_stop:continue", "acme")],
    ),
    "billing.ledger.settling.allocate_payment": (
        dora,
        lambda e, who: _allocate(e, **who),
        [("billing:payment:allocate", "acme")],
    ),
    "billing.ledger.settling.release_payment": (
        dora,
        lambda e, who: settling.release_payment(
            payment_id=_allocate(e, **who).pk, reason="Wrong.", **who
        ),
        [("billing:payment:allocate", "acme"), ("billing:payment:release", "acme")],
    ),
    "billing.ledger.settling.unassign_payment": (
        dora,
        lambda e, who: settling.unassign_payment(
            payment_id=e.places["own"]["payments"], reason="Of another payer.", **who
        ),
        [("billing:payment:unassign", "acme")],
    ),
    "billing.ledger.settling.reverse_payment": (
        dora,
        lambda e, who: settling.reverse_payment(
            payment_id=e.places["own"]["payments"],
            reason="No funds.",
            booked_on=AT.date(),
            **who,
        ),
        [("billing:payment:reverse", "acme")],
    ),
    "billing.ledger.settling.refund_payment": (
        dora,
        lambda e, who: settling.refund_payment(
            payment_id=e.places["own"]["payments"],
            amount=Decimal(1),
            bank_reference="back",
            booked_on=AT.date(),
            reason="Paid twice.",
            **who,
        ),
        [("billing:payment:refund", "acme")],
    ),
    "billing.ledger.batches.export_batch": (
        dora,
        lambda _, who: batches.export_batch(month="2026-11", layout=GenericCsvLayout(), **who),
        [("billing:journal_batch:export", None)],
    ),
    "billing.ledger.journal.accrue_unbilled": (
        dora,
        lambda _, who: journal.accrue_unbilled(label="2026-10", **who),
        [("billing:accounting_month:accrue", None)],
    ),
    "billing.ledger.journal.close_accounting_month": (
        dora,
        lambda _, who: journal.close_accounting_month(label="2026-10", **who),
        [("billing:accounting_month:close", None)],
    ),
    "billing.disputes.open_dispute": (
        alice,
        lambda e, who: disputes.open_dispute(
            document_id=e.places["own"]["final"], amounts={}, reason="Not ours.", **who
        ),
        [("billing:dispute:open", "acme")],
    ),
    "billing.disputes.write_message": (
        alice,
        lambda e, who: disputes.write_message(
            dispute_id=e.places["own"]["disputes"], text="Which pods?", **who
        ),
        [("billing:dispute:reply", "acme")],
    ),
    "billing.disputes.withdraw_dispute": (
        alice,
        lambda e, who: disputes.withdraw_dispute(
            dispute_id=e.places["own"]["disputes"], reason="Our mistake.", **who
        ),
        [("billing:dispute:withdraw", "acme")],
    ),
    "billing.disputes.reject_dispute": (
        dora,
        lambda e, who: disputes.reject_dispute(
            dispute_id=e.places["own"]["disputes"], reason="Metered.", **who
        ),
        [("billing:dispute:reject", "acme")],
    ),
    "billing.disputes.accept_dispute": (
        dora,
        lambda e, who: disputes.accept_dispute(
            dispute_id=e.places["own"]["disputes"],
            amounts={},
            reason="Broken.",
            **who,
            terms=SITE_TERMS,
        ),
        [("billing:dispute:accept", "acme"), ("billing:invoice:draft", "acme")],
    ),
    "billing.ledger.write_offs.propose_write_off": (
        dora,
        lambda e, who: write_offs.propose_write_off(
            document_id=e.places["own"]["final"], reason="Insolvent.", is_four_eyes=True, **who
        ),
        [("billing:write_off:propose", "acme")],
    ),
    "billing.ledger.write_offs.confirm_write_off": (
        dora,
        lambda e, who: write_offs.confirm_write_off(
            write_off_id=e.places["own"]["write-offs"], is_four_eyes=True, **who
        ),
        [("billing:write_off:post", "acme")],
    ),
    "billing.ledger.write_offs.reject_write_off": (
        dora,
        lambda e, who: write_offs.reject_write_off(
            write_off_id=e.places["own"]["write-offs"], note="They pay.", **who
        ),
        [("billing:write_off:reject", "acme")],
    ),
    "billing.ledger.write_offs.reverse_write_off": (
        dora,
        lambda e, who: write_offs.reverse_write_off(
            write_off_id=write_offs.confirm_write_off(
                write_off_id=e.places["own"]["write-offs"], is_four_eyes=True, **who
            ).pk,
            reason="They paid.",
            **who,
        ),
        [("billing:write_off:post", "acme"), ("billing:write_off:reverse", "acme")],
    ),
}
