"""What comes late is a labelled line of the next invoice; a month adds up to one rounding."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.errors import (
    DraftStaleError,
    NothingToInvoiceError,
    PeriodNotReadyError,
)
from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine, InvoiceSeries
from billing.selectors.documents.membership import charges_of_line, unbilled_charges
from billing.services.closing import review_period
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct, draft, finalize, reported
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, MONTH_START
from tests.support.shared_rows import shared_rows

DECEMBER = AT.replace(month=12)
LINE = "Small unit, H100 1g.10gb"

pytestmark = pytest.mark.django_db


def close_november(ledger: Ledger) -> Invoice:
    """Return November's invoice, which costs more than three times October's, final."""
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-11")
    review_period(
        period_id=period.pk, actor=DORA, at=DECEMBER, acknowledgement="Checked.", terms=SITE_TERMS
    )
    return finalize(Invoice.objects.get(period=period), at=DECEMBER)


@shared_rows
def ledger() -> Ledger:
    """An organization whose namespaces are bound for three hours of October."""
    return make_ledger(bound_hours=BOUND_HOURS)


@shared_rows
def window(ledger: Ledger) -> MeteringWindow:
    """October's first hour, invoiced: LLM used 1,001 unit-seconds, 0.56 at 2.00."""
    made = sealed_window(ledger.cluster, [Use(ledger.llm, 1001)])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    finalize(draft(ledger.organization, "2026-10"))
    return made


def november(ledger: Ledger, unit_seconds: int = 3600) -> MeteringWindow:
    """Seal and accrue an hour of November with use of LLM."""
    made = sealed_window(ledger.cluster, [Use(ledger.llm, unit_seconds)], start_at=MONTH_END)
    accrue_everything(at=DECEMBER)
    return made


def test_late_use_of_a_closed_month_is_a_line_of_the_next(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger)
    accrue_late(correct(window, ledger.llm, 1001))

    invoice = close_november(ledger)

    # 2,002 unit-seconds at 2.00 are 1.11; 0.56 of it was billed in October.
    assert reported(invoice) == [
        (LINE, 3600, "2.00"),
        (f"{LINE}, late usage of October 2026", 1001, "0.55"),
    ]
    assert [line["service_month"] for line in invoice.document["lines"]] == ["2026-11", "2026-10"]
    assert invoice.document["total"] == {
        "unit_seconds": 4601,
        "unit_hours": "1.278056",
        "amount": "2.55",
    }
    own, late = InvoiceLine.objects.filter(invoice=invoice)
    assert (own.service_period, own.billed_unit_seconds) == (None, 0)
    assert late.service_period is not None
    assert (late.service_period.label, late.billed_unit_seconds) == ("2026-10", 1001)
    assert not unbilled_charges(Charge.objects.all()).exists()
    charges = charges_of_line(Charge.objects.all(), late.pk)
    assert set(charges.values_list("window_start", "unit_seconds")) == {(MONTH_START, 1001)}
    assert b'"2026-10",2,1001,0.278056,2.00,0.55' in render_csv(invoice.document)


def test_what_is_taken_back_is_a_correction(ledger: Ledger, window: MeteringWindow) -> None:
    november(ledger)
    accrue_late(correct(window, ledger.llm, -1001))

    invoice = close_november(ledger)

    assert reported(invoice) == [
        (LINE, 3600, "2.00"),
        (f"{LINE}, correction of October 2026", -1001, "-0.56"),
    ]
    assert invoice.total == Decimal("1.44")


def test_in_its_own_open_month_a_correction_is_no_line_of_its_own(ledger: Ledger) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 1001)])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    accrue_late(correct(window, ledger.llm, 1001), correct(window, ledger.llm, -1))

    invoice = finalize(draft(ledger.organization, "2026-10"))

    assert reported(invoice) == [(LINE, 2001, "1.11")]


def test_all_taken_back_in_its_own_month_leaves_a_line_of_nothing(ledger: Ledger) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 1001)])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    accrue_late(correct(window, ledger.llm, -1001))

    invoice = finalize(draft(ledger.organization, "2026-10"))

    assert reported(invoice) == [(LINE, 0, "0.00")]
    assert not unbilled_charges(Charge.objects.all()).exists()


def test_the_third_month_goes_on_from_what_both_billed(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger)
    accrue_late(correct(window, ledger.llm, 1001))
    close_november(ledger)
    sealed_window(ledger.cluster, [], start_at=DECEMBER.replace(minute=0))
    accrue_late(correct(window, ledger.llm, 1001), at=DECEMBER)

    invoice = draft(ledger.organization, "2026-12", at=DECEMBER.replace(year=2027, month=1))

    # 3,003 unit-seconds are 1.67, of which 0.56 + 0.55 are billed.
    assert reported(invoice) == [(f"{LINE}, late usage of October 2026", 1001, "0.56")]
    assert invoice.lines.get().billed_unit_seconds == 2002


def test_more_given_back_than_used_is_a_credit_note_and_the_month_closes(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger, 60)
    accrue_late(correct(window, ledger.llm, -1001))
    negative = draft(ledger.organization, "2026-11", at=DECEMBER)
    assert negative.document["total"]["amount"] == "-0.53"

    final = finalize(negative, at=DECEMBER)

    assert (final.kind, final.number, str(final.total)) == ("credit_note", 1, "-0.5300")
    assert final.reference == f"GL-CN-{final.issue_year}-000001"
    assert final.document["kind"] == "credit_note"
    assert BillingPeriod.objects.get(label="2026-11").state == "closed"
    assert not unbilled_charges(Charge.objects.all()).exists()
    assert set(InvoiceSeries.objects.values_list("code", "next_number")) == {
        (f"GL-{final.issue_year}", 2),
        (f"GL-CN-{final.issue_year}", 2),
    }


def test_a_late_line_can_be_checked_from_the_document(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger)
    accrue_late(correct(window, ledger.llm, 1001))

    invoice = draft(ledger.organization, "2026-11", at=DECEMBER)

    late = invoice.document["lines"][1]
    assert (late["unit_seconds"], late["amount"]) == (1001, "0.55")
    assert (late["billed_unit_seconds"], late["billed_amount"]) == (1001, "0.56")
    assert (late["whole_unit_hours"], late["whole_amount"]) == ("0.556111", "1.11")
    assert "billed_amount" not in invoice.document["lines"][0]
    assert b",0.55,1001,0.56\r\n" in render_csv(invoice.document)
    assert render_pdf(invoice.document).startswith(b"%PDF-")


def test_a_draft_is_stale_once_another_invoice_billed_more_of_the_same_month(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger, 360)
    accrue_late(correct(window, ledger.llm, 1001))
    seen = draft(ledger.organization, "2026-11", at=DECEMBER)
    seen.lines.filter(service_period__label="2026-10").update(billed_unit_seconds=1000)

    with pytest.raises(DraftStaleError) as refused:
        finalize(seen, at=DECEMBER)

    assert refused.value.facts == {"differences": 1}
    seen.refresh_from_db()
    assert seen.state == "draft"


def test_an_invoice_waits_for_corrections_to_be_accrued(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger)
    late = correct(window, ledger.llm, 1001)

    with pytest.raises(PeriodNotReadyError) as refused:
        draft(ledger.organization, "2026-11", at=DECEMBER)

    assert [(p.code, p.message) for p in refused.value.problems] == [
        ("corrections_not_accrued", "1 usage correction is not accrued.")
    ]
    accrue_late(late)
    assert draft(ledger.organization, "2026-11", at=DECEMBER).unit_seconds == 4601


def test_a_closed_month_is_not_drafted_again_for_what_came_late(
    ledger: Ledger, window: MeteringWindow
) -> None:
    accrue_late(correct(window, ledger.llm, 1001))
    october = Invoice.objects.get()

    assert october.unit_seconds == 1001
    assert october.document["total"]["amount"] == "0.56"
    assert not unbilled_charges(Charge.objects.filter(period=october.period)).exists()


def test_a_month_with_nothing_new_has_nothing_to_invoice(
    ledger: Ledger, window: MeteringWindow
) -> None:
    del window
    sealed_window(ledger.cluster, [], start_at=MONTH_END)
    accrue_everything(at=DECEMBER)
    late = correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 5)
    accrue_late(late)
    close_november(ledger)

    with pytest.raises((NothingToInvoiceError, BillingPeriod.DoesNotExist)):
        draft(ledger.organization, "2026-12", at=DECEMBER.replace(year=2027, month=1))


def test_statements_of_a_draft_do_not_grow_with_late_months_and_corrections(
    ledger: Ledger, window: MeteringWindow
) -> None:
    november(ledger)
    accrue_late(correct(window, ledger.llm, 60))
    draft(ledger.organization, "2026-11", at=DECEMBER)

    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            draft(ledger.organization, "2026-11", at=DECEMBER)
        return len(asked)

    few = statements()
    windows = MeteringWindow.objects.filter(start_at__lt=MONTH_END)
    for late in windows:
        accrue_late(*(correct(late, p, 60, 70) for p in (ledger.llm, ledger.vision)))

    assert statements() == few
