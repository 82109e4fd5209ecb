"""Minimum lines on documents: after tiers, shared by projects, with late use, credits and voids."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.document_text import invoice_text
from billing.domain.errors import DraftStaleError, PeriodHasChargesError, ReasonMissingError
from billing.domain.pricing.minimum import (
    MinimumInForceError,
    MinimumInvalidError,
    MinimumMonthsClosedError,
    MinimumOverlapError,
    MinimumRule,
    ProjectMissingError,
)
from billing.models import BillingPeriod, Invoice, MinimumCharge
from billing.selectors.documents.previews import preview_lines
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.terms_verification import check_terms
from billing.selectors.verification import check_invoices, check_lines
from billing.services.closing import close_nil_period
from billing.services.crediting import draft_credit, void_invoice
from billing.services.periods import open_period
from billing.services.pricing.minimums import publish_minimum, withdraw_minimum
from billing.services.pricing.tiers import publish_tiers
from billing.tasks import settle_periods
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    month_of_use,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END, make_organization
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that documents and journal agree, as at a commit."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for check in (check_journal, check_invoices, check_lines, check_terms):
        assert check({}).differences == ()


@shared_rows
def ledger() -> Ledger:
    """October with 2 h in one project and 1 h in another, at 2.00: 4.00 and 2.00."""
    return month_of_use([("llm", 3600), ("llm", 3600), ("vision", 3600)])


def publish(ledger: Ledger, amount: str, **changes: Any) -> MinimumCharge:  # noqa: ANN401 - Fields.
    more = {key: changes.pop(key) for key in ("replaces", "reason") if key in changes}
    rule = MinimumRule(**{"amount": Decimal(amount), "first_month": "2026-10", **changes})
    return publish_minimum(organization=ledger.organization, rule=rule, actor=DORA, at=AT, **more)


def minimums_of(invoice: Invoice) -> list[tuple[str, str, str]]:
    """Return project, earlier month and amount of each minimum line."""
    rows = invoice.lines.filter(kind="minimum").order_by("position")
    return [
        (row.project.slug, row.service_period.label if row.service_period else "", str(row.amount))
        for row in rows.select_related("project", "service_period")
    ]


def november(ledger: Ledger, unit_seconds: int = 3600) -> MeteringWindow:
    pod = Use(ledger.llm, unit_seconds, units=max(1, unit_seconds // 3600))
    made = sealed_window(ledger.cluster, [pod], start_at=MONTH_END)
    accrue_everything(at=NOVEMBER_OVER)
    return made


def test_what_a_month_lacks_is_shared_by_what_projects_pay(ledger: Ledger) -> None:
    publish(ledger, "10.01")

    invoice = finalize(draft(ledger.organization, "2026-10"))

    # 10.01 - 6.00 = 4.01; two thirds are 2.6733, one third is 1.3366, which gets the last cent.
    assert minimums_of(invoice) == [("llm", "", "2.6700"), ("vision", "", "1.3400")]
    assert invoice.total == Decimal("10.01")
    assert invoice.document["lines"][1]["minimum"] == {
        "minimum": "10.01",
        "net_of_month": "6.00",
        "whole_amount": "2.67",
        "billed_amount": "0.00",
    }
    assert invoice_text(invoice.document).minimum == "4.01"
    assert b'"Minimum of 10.01 EUR for October 2026"' in render_csv(invoice.document)
    assert render_pdf(invoice.document).startswith(b"%PDF")


def test_a_month_that_costs_enough_has_no_minimum_line(ledger: Ledger) -> None:
    publish(ledger, "6.00")

    assert minimums_of(finalize(draft(ledger.organization, "2026-10"))) == []


def test_tiers_come_before_the_minimum(ledger: Ledger) -> None:
    publish_tiers(price_book=ledger.book, rule=make_rule((0, 50)), actor=DORA, at=AT)
    publish(ledger, "4.00")

    invoice = finalize(draft(ledger.organization, "2026-10"))

    # 6.00 - 3.00 = 3.00 is what counts.
    assert minimums_of(invoice) == [("llm", "", "0.6700"), ("vision", "", "0.3300")]
    assert invoice.total == 4


def test_late_use_takes_the_minimum_back(ledger: Ledger) -> None:
    publish(ledger, "10.00", last_month="2026-10")
    finalize(draft(ledger.organization, "2026-10"))
    november(ledger)
    first = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(first, ledger.llm, 3600), at=NOVEMBER_OVER)

    invoice = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    # October: 8.00 of use leaves 2.00 to the minimum, 1.50 and 0.50; 2.67 and 1.33 were billed.
    assert minimums_of(invoice) == [
        ("llm", "2026-10", "-1.1700"),
        ("vision", "2026-10", "-0.8300"),
    ]
    assert invoice.total == 2


def test_a_retraction_is_made_up_to_the_minimum(ledger: Ledger) -> None:
    publish(ledger, "5.00", last_month="2026-10")
    finalize(draft(ledger.organization, "2026-10"))
    november(ledger)
    first = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(first, ledger.llm, -3600), at=NOVEMBER_OVER)

    invoice = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)

    # October's 6.00 become 4.00: 1.00 is missing, half of it each. November has 2.00.
    assert minimums_of(invoice) == [("llm", "2026-10", "0.5000"), ("vision", "2026-10", "0.5000")]
    assert invoice.total == 1


def test_a_month_without_use_is_billed_the_minimum() -> None:
    ledger = make_ledger(bound_hours=3)
    open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)
    seal_rest_of_month(ledger.cluster, hours=3)
    accrue_everything()
    publish(ledger, "7.00")

    settle_periods(at=AT, actor=TICK)

    invoice = Invoice.objects.get()
    assert (invoice.period.label, invoice.period.state) == ("2026-10", "open")
    assert minimums_of(invoice) == [("llm", "", "7.0000")]
    with pytest.raises(PeriodHasChargesError):
        close_nil_period(period_id=invoice.period_id, actor=DORA, at=AT)


def test_a_credit_of_a_minimum_line_is_not_asked_for_again(ledger: Ledger) -> None:
    publish(ledger, "10.00", last_month="2026-10")
    invoice = finalize(draft(ledger.organization, "2026-10"))
    line = invoice.lines.get(kind="minimum", project=ledger.llm)
    note = draft_credit(
        invoice_id=invoice.pk,
        amounts={line.pk: Decimal(2)},
        reason="Agreed.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )
    finalize(note)
    november(ledger)
    first = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(first, ledger.llm, 60), at=NOVEMBER_OVER)

    later = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)

    # 60 s are 0.03 more: 3.97 are missing now instead of 4.00; the credit is left alone.
    assert sum(Decimal(amount) for _, _, amount in minimums_of(later)) == Decimal("-0.03")


def test_a_void_invoice_is_replaced_with_the_minimum_that_replaced_another(ledger: Ledger) -> None:
    wrong = publish(ledger, "100.00")
    invoice = finalize(draft(ledger.organization, "2026-10"))
    publish(ledger, "10.00", replaces=wrong.pk, reason="Typed wrong.")

    note, replacement = void_invoice(
        invoice_id=invoice.pk, reason="Minimum typed wrong.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(note)

    replacement.refresh_from_db()
    assert [note.total, replacement.total] == [-100, 10]
    assert minimums_of(replacement) == [("llm", "", "2.6700"), ("vision", "", "1.3300")]


def test_a_draft_with_another_minimum_is_refused(ledger: Ledger) -> None:
    drafted = draft(ledger.organization, "2026-10")
    publish(ledger, "10.00")

    with pytest.raises(DraftStaleError) as refused:
        finalize(drafted)

    assert refused.value.facts == {"changed": "minimums"}


def test_the_preview_has_the_lines_of_the_draft(ledger: Ledger) -> None:
    publish(ledger, "10.00")
    months = list(BillingPeriod.objects.filter(label="2026-10").select_related("organization"))

    lines = preview_lines(months)[months[0].pk]

    assert [line.kind for line in lines] == ["usage", "minimum", "usage", "minimum"]


def test_wrong_minimums_are_refused(ledger: Ledger) -> None:
    first = publish(ledger, "10.00", last_month="2026-12")

    for changes, error in (
        ({"amount": "-1"}, MinimumInvalidError),
        ({"amount": "0.001"}, MinimumInvalidError),
        ({"amount": "1", "first_month": "2027-02", "last_month": "2027-01"}, MinimumInvalidError),
        ({"amount": "1", "first_month": "2026-12"}, MinimumOverlapError),
        ({"amount": "1", "replaces": first.pk}, ReasonMissingError),
        (
            {"amount": "1", "first_month": "2027-01", "replaces": first.pk, "reason": "Late."},
            MinimumInForceError,
        ),
    ):
        amount = str(changes.pop("amount"))
        with pytest.raises(error), transaction.atomic():
            publish(ledger, amount, **changes)
    rule = MinimumRule(Decimal(1), "2026-10")
    empty = make_organization("empty")
    with pytest.raises(ProjectMissingError):
        publish_minimum(organization=empty, rule=rule, actor=DORA, at=AT)
    assert MinimumCharge.objects.count() == 1


def test_closed_months_need_a_replacement_with_a_reason(ledger: Ledger) -> None:
    finalize(draft(ledger.organization, "2026-10"))

    with pytest.raises(MinimumMonthsClosedError):
        publish(ledger, "10.00")
    later = publish(ledger, "10.00", first_month="2026-11")
    withdraw_minimum(minimum_id=later.pk, reason="Not agreed.", actor=DORA, at=AT)
    with pytest.raises(MinimumInForceError):
        withdraw_minimum(minimum_id=later.pk, reason="Again.", actor=DORA, at=AT)


def test_the_database_keeps_minimum_charges(ledger: Ledger) -> None:
    made = publish(ledger, "10.00")

    for change in ("amount = 9", "last_month = '2027-01'", "superseded_from = '2026-09'"):
        with (
            pytest.raises(DatabaseError, match="withdrawn or replaced"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(f"UPDATE billing_minimumcharge SET {change} WHERE id = %s", [made.pk])  # noqa: S608 - Own text.
