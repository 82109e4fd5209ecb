"""A balance below zero, or too small to ask for, is carried to later documents for some months."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import override_settings

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.carrying import CarryTerms
from billing.domain.documents.document_text import invoice_text
from billing.domain.errors import DraftStaleError
from billing.domain.ledger.errors import NothingCarriedError, PaymentInvalidError
from billing.models import BillingPeriod, Invoice, JournalEntry, Payment
from billing.selectors.ledger.carried import carried_balances
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing, statement
from billing.selectors.verification import check_invoices, check_lines, check_numbers
from billing.services.closing import review_period
from billing.services.crediting import draft_credit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.ledger.carried import release_balance
from billing.services.ledger.settling import refund_payment
from billing.services.routing import set_route
from billing.tasks import settle_periods
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tenants.selectors.clock import database_now
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.payments import pay, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
TERMS = replace(SITE_TERMS, carry=CarryTerms(months=2, below={"EUR": Decimal("1.50")}))
MONTHS = {"2026-11": MONTH_START.replace(month=11), "2026-12": MONTH_START.replace(month=12)}
MONTHS["2027-01"] = MONTH_START.replace(year=2027, month=1)


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that documents, journal and payments agree, as at a commit."""
    yield
    expect_consistent()
    for check in (check_journal, check_invoices, check_lines, check_numbers):
        assert check({}).differences == ()


@shared_rows
def ledger() -> Ledger:
    return make_ledger(bound_hours=3)


@shared_rows
def october(ledger: Ledger) -> MeteringWindow:
    """October's first hour, invoiced with 20.00."""
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 36_000, units=10)])
    seal_rest_of_month(ledger.cluster, hours=3)
    accrue_everything()
    close(ledger, "2026-10", at=AT)
    return window


def expect_consistent() -> None:
    """Have the database check what it checks at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def use(ledger: Ledger, label: str, unit_seconds: int) -> None:
    """Seal and charge an hour of a month."""
    pod = Use(ledger.llm, unit_seconds, units=max(1, unit_seconds // 3600))
    sealed_window(ledger.cluster, [pod], start_at=MONTHS[label])
    accrue_everything(at=after(label))


def after(label: str) -> datetime:
    return MONTHS.get(label, MONTH_START).replace(day=28) + 5 * 24 * HOUR


def review(ledger: Ledger, label: str, *, at: datetime) -> Invoice:
    period = BillingPeriod.objects.get(organization=ledger.organization, label=label)
    review_period(
        period_id=period.pk, actor=DORA, at=at, terms=TERMS, acknowledgement="It is right."
    )
    return Invoice.objects.filter(period=period, run=1).earliest("purchase_order")


def close(ledger: Ledger, label: str, *, at: datetime | None = None) -> Invoice:
    at = at or after(label)
    draft = review(ledger, label, at=at)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=at, terms=TERMS)


def retract(ledger: Ledger, window: MeteringWindow) -> None:
    """Take October's use back, after November was opened by use of its own."""
    use(ledger, "2026-11", 3600)
    accrue_late(correct(window, ledger.llm, -36_000), at=after("2026-11"))


def carried(document: Invoice) -> tuple[str, str, str, str]:
    """Return what a document shows: gross, brought forward, carried forward and due."""
    shown = document.document["carried"]
    gross = document.document["total"]["amount"]
    return gross, shown["brought_forward"], shown["carried_forward"], shown["amount_due"]


def posted(document: Invoice) -> dict[str, Decimal]:
    entry = JournalEntry.objects.get(source_key=f"document:{document.pk}")
    return {posting.account_id: posting.amount for posting in entry.postings.all()}


def balance_of(ledger: Ledger) -> Decimal | None:
    payer = ledger.organization.pk
    found = carried_balances({payer: "EUR"})[payer]
    return found[None, None].amount if found else None


def test_a_month_below_zero_is_carried_until_later_months_have_used_it_up(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    november = close(ledger, "2026-11")
    use(ledger, "2026-12", 18_000)
    december = close(ledger, "2026-12")

    # 2.00 - 20.00 = -18.00; 10.00 - 18.00 = -8.00.
    assert carried(november) == ("-18.00", "0.00", "-18.00", "0.00")
    assert carried(december) == ("10.00", "-18.00", "-8.00", "0.00")
    assert (november.kind, december.kind) == ("credit_note", "invoice")
    assert december.document["carried"]["since"] == "2026-11"
    assert posted(november) == {"carried_balance": Decimal(-18), "revenue": Decimal(18)}
    assert posted(december) == {"carried_balance": Decimal(10), "revenue": Decimal(-10)}
    assert not Payment.objects.exists()
    assert balance_of(ledger) == -8
    assert settled(december) == ("carried", "0.00")


def test_what_is_left_of_a_balance_is_taken_off_the_next_amount_due(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    use(ledger, "2026-12", 72_000)

    december = close(ledger, "2026-12")

    assert carried(december) == ("40.00", "-18.00", "0.00", "22.00")
    assert posted(december) == {
        "carried_balance": Decimal(18),
        "receivables": Decimal(22),
        "revenue": Decimal(-40),
    }
    assert balance_of(ledger) is None
    pay(amount="22.00", remittance=december.reference)
    assert settled(december) == ("paid", "0.00")


def test_a_balance_carried_long_enough_is_credited(ledger: Ledger, october: MeteringWindow) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    use(ledger, "2026-12", 3600)
    close(ledger, "2026-12")
    use(ledger, "2027-01", 3600)

    january = close(ledger, "2027-01")

    # -18.00 + 2.00 + 2.00: November and December carried it, which is as long as the site allows.
    assert carried(january) == ("2.00", "-16.00", "0.00", "-14.00")
    (credit,) = Payment.objects.all()
    assert (credit.kind, credit.amount) == ("credit_note", Decimal(14))
    assert posted(january) == {
        "carried_balance": Decimal(16),
        "customer_credit": Decimal(-14),
        "revenue": Decimal(-2),
    }
    assert balance_of(ledger) is None
    assert settled(january) == ("paid", "0.00")


def test_an_amount_too_small_to_ask_for_is_carried(
    ledger: Ledger,
    october: MeteringWindow,  # noqa: ARG001 - October is closed.
) -> None:
    use(ledger, "2026-11", 1800)
    november = close(ledger, "2026-11")
    use(ledger, "2026-12", 3600)
    december = close(ledger, "2026-12")

    assert carried(november) == ("1.00", "0.00", "1.00", "0.00")
    assert carried(december) == ("2.00", "1.00", "0.00", "3.00")
    assert settled(november) == ("carried", "0.00")
    assert settled(december) == ("open", "3.00")


def test_reports_count_a_carried_balance(ledger: Ledger, october: MeteringWindow) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    today = database_now().date()

    (row,) = ageing(on=today, organization_ids=None)
    account = statement(
        ledger.organization.pk,
        currency="EUR",
        begin_on=today,
        end_on=today.replace(year=today.year + 1),
    )

    # October's 20.00 are open; -18.00 are carried.
    assert [row.not_due, row.credit, row.total] == [20, -18, 2]
    assert sorted(line.amount for line in account.lines) == [-18, 20]
    assert account.closing == 2


def test_voiding_a_document_leaves_the_balance_as_it_was_before(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    use(ledger, "2026-12", 72_000)
    december = close(ledger, "2026-12")

    note, _ = void_invoice(
        invoice_id=december.pk, reason="Another address.", actor=DORA, at=AT, terms=TERMS
    )
    finalize_invoice(invoice_id=note.pk, actor=ERIC, at=AT, terms=TERMS)
    note.refresh_from_db()
    replacement = Invoice.objects.get(period=december.period, run=2, corrects=None)

    assert carried(note) == ("-40.00", "0.00", "-18.00", "-22.00")
    assert carried(replacement) == ("40.00", "-18.00", "0.00", "22.00")
    assert settled(december) == ("credited", "0.00")
    assert settled(replacement) == ("open", "22.00")
    assert balance_of(ledger) is None


def test_a_credit_of_what_was_never_asked_for_comes_back_to_the_balance(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    use(ledger, "2026-12", 72_000)
    december = close(ledger, "2026-12")

    draft = draft_credit(
        invoice_id=december.pk,
        amounts={december.lines.get().pk: Decimal(30)},
        reason="Half of it failed.",
        actor=DORA,
        at=AT,
        terms=TERMS,
    )
    note = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=TERMS)

    # 22.00 were asked for, so 8.00 of the 18.00 that settled the rest come back.
    assert carried(note) == ("-30.00", "0.00", "-8.00", "-22.00")
    assert settled(december) == ("credited", "0.00")
    assert balance_of(ledger) == -8


def test_a_draft_that_shows_another_balance_is_refused(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    november = close(ledger, "2026-11")
    use(ledger, "2026-12", 3600)
    december = review(ledger, "2026-12", at=after("2026-12"))
    release_balance(invoice_id=november.pk, reason="It leaves.", actor=DORA, at=AT)

    with pytest.raises(DraftStaleError) as refused:
        finalize_invoice(invoice_id=december.pk, actor=ERIC, at=after("2026-12"), terms=TERMS)

    assert refused.value.facts == {"changed": "carried balance"}


def test_a_balance_is_released_once_and_can_then_be_paid_back(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    november = close(ledger, "2026-11")

    credit = release_balance(invoice_id=november.pk, reason="It leaves.", actor=DORA, at=AT)

    assert (credit.kind, credit.amount) == ("carried", Decimal(18))
    assert balance_of(ledger) is None
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.facts["reason"]) == (
        "billing:payment:release_balance",
        "It leaves.",
    )
    with pytest.raises(NothingCarriedError):
        release_balance(invoice_id=november.pk, reason="Again.", actor=DORA, at=AT)
    paid_back: dict[str, Any] = {
        "payment_id": credit.pk,
        "amount": Decimal(18),
        "bank_reference": "out-1",
        "booked_on": AT.date(),
        "reason": "It leaves.",
        "actor": DORA,
        "at": AT,
    }
    with pytest.raises(PaymentInvalidError) as refused:
        refund_payment(**paid_back)
    assert refused.value.field == "bank_account"
    refund_payment(**paid_back, bank_account="DE1")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("brought_forward = -1", "does not bring forward"),
        ("carried_forward = -1", "carries a part"),
        ("brought_forward = -18, carried_forward = -8", "shows something else"),
    ],
)
def test_the_database_refuses_another_balance(
    ledger: Ledger, october: MeteringWindow, change: str, reason: str
) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    use(ledger, "2026-12", 18_000)
    draft = review(ledger, "2026-12", at=after("2026-12"))
    shown = draft.document["carried"] | {"carried_forward": "-7.00"}
    Invoice.objects.filter(pk=draft.pk).update(document=draft.document | {"carried": shown})

    with (
        pytest.raises(DatabaseError, match=reason),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            f"UPDATE billing_invoice SET {change}, state = 'final', number = 9, "  # noqa: S608 - Own text.
            "finalized_at = now(), content_sha256 = repeat('0', 64) WHERE id = %s",
            [draft.pk],
        )


def test_documents_of_one_run_pass_the_balance_on(ledger: Ledger, october: MeteringWindow) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")
    set_route(project=ledger.vision, purchase_order="4711", actor=DORA, at=AT)
    pods = [Use(ledger.llm, 3600), Use(ledger.vision, 36_000, units=10)]
    sealed_window(ledger.cluster, pods, start_at=MONTHS["2026-12"])
    accrue_everything(at=after("2026-12"))
    close(ledger, "2026-12")

    december = Invoice.objects.filter(period__label="2026-12").order_by("purchase_order")

    # -18.00 + 2.00 = -16.00 goes to the document of the purchase order: + 20.00 = 4.00.
    assert [carried(document) for document in december] == [
        ("2.00", "-18.00", "-16.00", "0.00"),
        ("20.00", "-16.00", "0.00", "4.00"),
    ]


@override_settings(CARRY_MONTHS=2)
def test_a_sweep_releases_what_no_document_took_over(
    ledger: Ledger, october: MeteringWindow
) -> None:
    retract(ledger, october)
    close(ledger, "2026-11")

    settle_periods(at=AT.replace(year=2027, month=2), actor=TICK)
    assert balance_of(ledger) == -18
    settle_periods(at=AT.replace(year=2027, month=3), actor=TICK)

    assert balance_of(ledger) is None
    assert Payment.objects.get().reason == "It was carried for more than 2 months."


def test_documents_print_the_balance(ledger: Ledger, october: MeteringWindow) -> None:
    retract(ledger, october)
    november = close(ledger, "2026-11")
    use(ledger, "2026-12", 72_000)
    december = close(ledger, "2026-12")

    shown = invoice_text(november.document).carried
    assert shown is not None
    assert (shown.carried_forward, shown.amount_due) == ("18.00", "0.00")
    header, line = render_csv(december.document).decode().splitlines()
    assert header.endswith('"brought_forward","carried_forward","amount_due"')
    assert line.endswith(",-18.00,0.00,22.00")
    assert render_pdf(december.document).startswith(b"%PDF")
