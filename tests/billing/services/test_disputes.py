"""Disputes: opened on what is left of a final document, discussed, and decided once."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from billing.domain.errors import (
    CreditInvalidError,
    CreditTooLargeError,
    NotCreditableError,
    ReasonMissingError,
)
from billing.domain.ledger.errors import (
    DisputeDecidedError,
    DisputeMessageInvalidError,
    DisputeTooLargeError,
    NotDisputableError,
)
from billing.models import Dispute, DisputedLine, DisputeMessage, Invoice, InvoiceLine
from billing.selectors.ledger.settlement import with_settlement
from billing.services.crediting import draft_credit
from billing.services.disputes import (
    accept_dispute,
    open_dispute,
    reject_dispute,
    withdraw_dispute,
    write_message,
)
from billing.services.invoicing import discard_draft
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import DORA, Ledger, month_of_use
from tests.support.billing.payments import pay
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.shared_rows import shared_rows

LATER = MONTH_END + timedelta(days=31)
"""November is over."""

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def line_of(invoice: Invoice, project: str = "llm") -> InvoiceLine:
    return invoice.lines.get(project__slug=project)


def dispute(invoice: Invoice, *amounts: tuple[str, str], reason: str = "Not ours.") -> Dispute:
    return open_dispute(
        document_id=invoice.pk,
        amounts={line_of(invoice, project).pk: Decimal(amount) for project, amount in amounts},
        reason=reason,
        actor=DORA,
        at=AT,
    )


def credit(invoice: Invoice, project: str, amount: str) -> Invoice:
    amounts = {line_of(invoice, project).pk: Decimal(amount)}
    return draft_credit(
        invoice_id=invoice.pk,
        amounts=amounts,
        reason="Broken.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )


def status_of(invoice: Invoice) -> tuple[str, str, str]:
    row = with_settlement(Invoice.objects.filter(pk=invoice.pk), on=AT.date()).get()
    return row.payment_status, f"{row.disputed_amount:.2f}", f"{row.open_amount:.2f}"


def test_an_open_dispute_is_the_status_of_its_invoice_until_it_is_decided(final: Invoice) -> None:
    assert status_of(final) == ("open", "0.00", "3.00")

    opened = dispute(final, ("llm", "1.50"))
    assert status_of(final) == ("disputed", "1.50", "3.00")
    pay("B1", "3.00", remittance=final.reference)
    assert status_of(final) == ("disputed", "1.50", "0.00")

    withdraw_dispute(dispute_id=opened.pk, reason="Our mistake.", actor=DORA, at=AT)
    assert status_of(final) == ("paid", "0.00", "0.00")
    entry = AuditEntry.objects.get(action="billing:dispute:withdraw")
    assert (entry.facts["reason"], entry.facts["amount"]) == ("Our mistake.", "1.5000")


def test_a_whole_invoice_is_disputed_with_what_earlier_credits_left(final: Invoice) -> None:
    finalize(credit(final, "llm", "0.50"))

    opened = dispute(final)

    assert (opened.is_whole, opened.amount, opened.lines.count()) == (True, Decimal("2.5"), 0)


def test_no_more_is_disputed_than_is_left_of_a_line(final: Invoice) -> None:
    finalize(credit(final, "llm", "0.50"))

    with pytest.raises(CreditTooLargeError) as refused:
        dispute(final, ("llm", "1.51"))

    assert refused.value.facts["left"] == "1.5000"
    assert not Dispute.objects.exists()
    assert dispute(final, ("llm", "1.50")).amount == Decimal("1.5")


@pytest.mark.parametrize("amount", ["0", "-1", "0.001"])
def test_an_amount_that_is_none_is_refused(final: Invoice, amount: str) -> None:
    with pytest.raises(CreditInvalidError):
        dispute(final, ("llm", amount))
    assert not Dispute.objects.exists()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_a_dispute_has_a_reason_that_fits(final: Invoice, reason: str) -> None:
    with pytest.raises(ReasonMissingError):
        dispute(final, reason=reason)
    assert not Dispute.objects.exists()


def test_a_second_dispute_waits_for_the_first(final: Invoice) -> None:
    first = dispute(final, ("llm", "1.00"))
    with pytest.raises(NotDisputableError):
        dispute(final, ("vision", "1.00"))

    reject_dispute(dispute_id=first.pk, reason="Metered.", actor=DORA, at=AT)

    assert dispute(final, ("vision", "1.00")).state == "open"


def test_drafts_and_credit_notes_are_not_disputed(ledger: Ledger) -> None:
    drafted = draft(ledger.organization, "2026-10")
    with pytest.raises(NotDisputableError):
        dispute(drafted)

    note = finalize(credit(finalize(drafted), "llm", "2.00"))

    with pytest.raises(NotDisputableError):
        dispute(note)
    finalize(credit(drafted, "vision", "1.00"))
    with pytest.raises(NotDisputableError) as refused:
        dispute(drafted)
    assert refused.value.facts == {"left": "0.0000"}
    assert not Dispute.objects.exists()


def test_messages_are_a_thread_until_the_dispute_is_decided(final: Invoice) -> None:
    opened = dispute(final)
    for text in ("Which pods?", " Those of llm. "):
        write_message(dispute_id=opened.pk, text=text, actor=DORA, at=AT)
    with pytest.raises(DisputeMessageInvalidError):
        write_message(dispute_id=opened.pk, text=" ", actor=DORA, at=AT)
    reject_dispute(dispute_id=opened.pk, reason="Metered.", actor=DORA, at=AT)

    with pytest.raises(DisputeDecidedError):
        write_message(dispute_id=opened.pk, text="But", actor=DORA, at=AT)

    assert [one.text for one in opened.messages.all()] == ["Which pods?", "Those of llm."]


def test_an_accepted_dispute_drafts_the_credit_note_that_another_person_finalizes(
    final: Invoice,
) -> None:
    opened = dispute(final, ("llm", "1.50"), ("vision", "1.00"))

    accepted = accept_dispute(
        dispute_id=opened.pk,
        amounts={line_of(final).pk: Decimal("1.20")},
        reason="Half of it.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )

    note = accepted.credit_note
    assert note is not None
    assert (note.state, note.kind, note.total, note.run_reason, note.corrects_id) == (
        "draft",
        "credit_note",
        Decimal("-1.2"),
        "Half of it.",
        final.pk,
    )
    assert status_of(final) == ("open", "0.00", "3.00")
    finalize(note)
    assert status_of(final) == ("open", "0.00", "1.80")


@pytest.mark.parametrize("amounts", [(), (("llm", "1.50"),)])
def test_all_that_is_disputed_is_accepted_without_amounts(
    final: Invoice, amounts: tuple[tuple[str, str], ...]
) -> None:
    opened = dispute(final, *amounts)

    accepted = accept_dispute(
        dispute_id=opened.pk, amounts={}, reason="Yes.", actor=DORA, at=AT, terms=SITE_TERMS
    )

    assert accepted.credit_note is not None
    assert accepted.credit_note.total == -opened.amount


def test_a_whole_document_with_a_line_below_zero_is_accepted_without_amounts(
    ledger: Ledger,
    final: Invoice,  # noqa: ARG001 - October, which the corrections come after.
) -> None:
    window = MeteringWindow.objects.filter(cluster=ledger.cluster).earliest("start_at")
    accrue_late(correct(window, ledger.llm, 3600), correct(window, ledger.vision, -1800))
    november = finalize(draft(ledger.organization, "2026-11", at=LATER), at=LATER)
    opened = dispute(november)

    accepted = accept_dispute(
        dispute_id=opened.pk, amounts={}, reason="Yes.", actor=DORA, at=LATER, terms=SITE_TERMS
    )

    note = accepted.credit_note
    assert [line.amount for line in november.lines.order_by("position")] == [2, -1]
    assert note is not None
    assert (opened.amount, note.total) == (Decimal(1), Decimal(-1))
    assert finalize(note, at=LATER).lines.get().amount == -1


@pytest.mark.parametrize(
    ("disputed", "accepted"),
    [
        ((("llm", "1.50"),), {"llm": "1.51"}),
        ((("llm", "1.50"),), {"vision": "0.10"}),
        ((("llm", "1.50"), ("vision", "0.50")), {"llm": "1.50", "vision": "0.51"}),
        ((), {"llm": "2.00", "vision": "1.01"}),
    ],
)
def test_no_more_is_accepted_than_is_disputed(
    final: Invoice, disputed: tuple[tuple[str, str], ...], accepted: dict[str, str]
) -> None:
    opened = dispute(final, *disputed)

    with pytest.raises(DisputeTooLargeError):
        accept_dispute(
            dispute_id=opened.pk,
            amounts={line_of(final, key).pk: Decimal(text) for key, text in accepted.items()},
            reason="Yes.",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )

    opened.refresh_from_db()
    assert (opened.state, Invoice.objects.filter(corrects=final).count()) == ("open", 0)


def test_a_dispute_stays_open_if_its_credit_note_cannot_be_drafted(final: Invoice) -> None:
    opened = dispute(final, ("llm", "1.50"))
    note = credit(final, "vision", "1.00")
    ask: dict[str, Any] = {"dispute_id": opened.pk, "amounts": {}, "reason": "Yes."}

    with pytest.raises(NotCreditableError):
        accept_dispute(**ask, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize(note)
    finalize(credit(final, "llm", "1.00"))
    with pytest.raises(CreditTooLargeError):
        accept_dispute(**ask, actor=DORA, at=AT, terms=SITE_TERMS)

    opened.refresh_from_db()
    assert (opened.state, opened.credit_note) == ("open", None)
    assert not AuditEntry.objects.filter(action="billing:dispute:accept").exists()


def test_a_decided_dispute_is_not_decided_again(final: Invoice) -> None:
    opened = dispute(final)
    accept_dispute(
        dispute_id=opened.pk, amounts={}, reason="Yes.", actor=DORA, at=AT, terms=SITE_TERMS
    )

    for decide in (withdraw_dispute, reject_dispute):
        with pytest.raises(DisputeDecidedError):
            decide(dispute_id=opened.pk, reason="No.", actor=DORA, at=AT)
    with pytest.raises(DisputeDecidedError):
        accept_dispute(
            dispute_id=opened.pk, amounts={}, reason="Yes.", actor=DORA, at=AT, terms=SITE_TERMS
        )
    assert Invoice.objects.filter(corrects=final).count() == 1


def test_a_discarded_credit_note_leaves_its_dispute_accepted(final: Invoice) -> None:
    opened = dispute(final)
    note = accept_dispute(
        dispute_id=opened.pk, amounts={}, reason="Yes.", actor=DORA, at=AT, terms=SITE_TERMS
    ).credit_note
    assert note is not None

    discard_draft(invoice_id=note.pk, actor=DORA, at=AT)

    opened.refresh_from_db()
    assert (opened.state, opened.credit_note) == ("accepted", None)


def test_the_database_keeps_disputes(final: Invoice) -> None:
    opened = dispute(final, ("llm", "1.50"))
    write_message(dispute_id=opened.pk, text="Why?", actor=DORA, at=AT)
    rows = Dispute.objects.filter(pk=opened.pk)

    for change in (
        lambda: rows.update(amount=1),
        rows.delete,
        lambda: DisputedLine.objects.update(amount=1),
        lambda: DisputeMessage.objects.update(text="x"),
        DisputeMessage.objects.all().delete,
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    reject_dispute(dispute_id=opened.pk, reason="Metered.", actor=DORA, at=AT)
    with pytest.raises(DatabaseError), transaction.atomic():
        rows.update(state="open", decided_at=None)
