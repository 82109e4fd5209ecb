"""Late use after credit and debit notes: no hour is given back, or asked for, twice."""

from decimal import Decimal

import pytest
from django.db import connection

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.errors import DraftStaleError
from billing.domain.pricing.minimum import MinimumRule
from billing.models import Invoice, Posting
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.verification import check_invoices, check_lines
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.ledger.journal import accrue_unbilled
from billing.services.pricing.minimums import publish_minimum
from billing.services.pricing.tiers import publish_tiers
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    assign,
    make_book,
    make_price,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import (
    AT,
    MONTH_END,
    MONTH_START,
    make_cluster,
    make_organization,
    make_project,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
UNIT = 1800
"""Unit-seconds that cost 1.00."""
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR
DECEMBER_OVER = NOVEMBER_OVER + 31 * 24 * HOUR


@shared_rows
def ledger() -> Ledger:
    """October with ten pods of 1.00 each."""
    return month_of_use([("llm", UNIT)] * 10)


@shared_rows
def october(ledger: Ledger) -> Invoice:
    return finalize(draft(ledger.organization, "2026-10"))


def note(document: Invoice, amount: str) -> Invoice:
    """Return a credit or debit note on the one line of a document, final."""
    change = Decimal(amount)
    make = draft_credit if change < 0 else draft_debit
    amounts = {document.lines.get().pk: abs(change)}
    return finalize(
        make(
            invoice_id=document.pk,
            amounts=amounts,
            reason="Outage.",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )
    )


def late(ledger: Ledger, pods: int, label: str = "2026-11") -> Invoice:
    """Return the draft of a month with so many pods of October added, or taken back."""
    at = {"2026-11": NOVEMBER_OVER, "2026-12": DECEMBER_OVER}[label]
    delta = UNIT if pods > 0 else -UNIT
    window = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(window, ledger.llm, *[delta] * abs(pods)), at=at - HOUR)
    return draft(ledger.organization, label, at=at)


def billed(document: Invoice) -> str:
    """Return the amount of a document's one line, which a reader can compute from the document."""
    (line,) = document.document["lines"]
    whole, left, before, notes = (
        Decimal(line.get(key, 0))
        for key in ("whole_amount", "notes_left_amount", "billed_amount", "notes_amount")
    )
    assert Decimal(line["amount"]) == whole + left - before - notes
    return str(line["amount"])


def accrued(label: str) -> list[Decimal]:
    accrue_unbilled(label=label, actor=DORA, at=DECEMBER_OVER)
    posted = Posting.objects.filter(entry__event="accrual", account="unbilled_receivables")
    return [row.amount for row in posted]


def expect_verified() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for check in (check_journal, check_invoices, check_lines):
        assert check({}).differences == ()


@pytest.mark.parametrize(
    ("notes", "pods", "amount"),
    [
        (["-3.00"], -2, "0.00"),
        (["-3.00"], -3, "0.00"),
        (["-3.00"], -5, "-2.00"),
        (["-3.00"], -10, "-7.00"),
        (["-3.00"], 5, "5.00"),
        (["-1.00", "-2.00"], -4, "-1.00"),
        (["2.00"], 1, "0.00"),
        (["2.00"], 3, "1.00"),
        (["2.00"], -3, "-3.00"),
        (["2.00", "-2.00"], -3, "-1.00"),
    ],
)
def test_what_a_note_gave_back_or_asked_for_is_not_billed_again(
    ledger: Ledger, october: Invoice, notes: list[str], pods: int, amount: str
) -> None:
    for change in notes:
        note(october, change)

    november = finalize(late(ledger, pods), at=NOVEMBER_OVER)

    assert billed(november) == amount
    expect_verified()


def test_hours_taken_back_and_added_again_leave_the_credit(
    ledger: Ledger, october: Invoice
) -> None:
    note(october, "-3.00")

    november = finalize(late(ledger, -3), at=NOVEMBER_OVER)
    december = finalize(late(ledger, 3, "2026-12"), at=DECEMBER_OVER)

    assert [billed(document) for document in (november, december)] == ["0.00", "0.00"]
    expect_verified()


@pytest.mark.parametrize(("pods", "amounts"), [(1, ["0.00", "2.00"]), (-3, ["-3.00", "1.00"])])
def test_a_debit_note_that_is_given_back_counts_for_nothing(
    ledger: Ledger, october: Invoice, pods: int, amounts: list[str]
) -> None:
    debit = note(october, "2.00")
    november = finalize(late(ledger, pods), at=NOVEMBER_OVER)
    note(debit, "-2.00")

    december = finalize(late(ledger, 1, "2026-12"), at=DECEMBER_OVER)

    assert [billed(november), billed(december)] == amounts


def test_a_later_credit_is_not_asked_back_where_use_fell_before(
    ledger: Ledger, october: Invoice
) -> None:
    note(october, "-1.00")
    november = finalize(late(ledger, -5), at=NOVEMBER_OVER)
    note(october, "-2.00")

    december = finalize(late(ledger, 1, "2026-12"), at=DECEMBER_OVER)

    assert [billed(document) for document in (november, december)] == ["-4.00", "1.00"]


def test_a_void_late_invoice_is_replaced_with_what_is_still_owed(
    ledger: Ledger, october: Invoice
) -> None:
    november = finalize(late(ledger, 5), at=NOVEMBER_OVER)
    note(october, "-3.00")

    back, anew = void_invoice(
        invoice_id=november.pk, reason="x", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(anew)

    anew.refresh_from_db()
    assert (back.total, billed(anew)) == (Decimal("-5.00"), "5.00")
    expect_verified()


def test_the_line_shows_what_was_billed_and_what_notes_changed(
    ledger: Ledger, october: Invoice
) -> None:
    note(october, "-3.00")

    november = late(ledger, -2)

    (line,) = november.document["lines"]
    assert (line["unit_seconds"], line["amount"]) == (-2 * UNIT, "0.00")
    assert (line["billed_unit_seconds"], line["billed_amount"]) == (10 * UNIT, "10.00")
    assert (line["notes_amount"], line["notes_left_amount"]) == ("-3.00", "-1.00")
    assert (line["whole_unit_hours"], line["whole_amount"]) == ("4.000000", "8.00")
    header, row = render_csv(november.document).decode().splitlines()
    assert header.endswith('"notes_amount","notes_left_amount"')
    assert row.endswith(",10.00,-3.00,-1.00")
    assert render_pdf(november.document).startswith(b"%PDF-")


@pytest.mark.parametrize("changes", [["-3.00"], ["-3.00", "3.00"]])
def test_a_draft_is_stale_once_a_note_of_its_month_is_final(
    ledger: Ledger, october: Invoice, changes: list[str]
) -> None:
    november = late(ledger, 1)
    for change in changes:
        note(october, change)

    with pytest.raises(DraftStaleError) as refused:
        finalize(november, at=NOVEMBER_OVER)

    assert refused.value.facts == {"differences": 1}
    again = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)
    assert billed(again) == {1: "1.00", 2: "0.00"}[len(changes)]


def test_the_accrual_has_what_late_use_uses_up_of_a_credit(
    ledger: Ledger, october: Invoice
) -> None:
    note(october, "-4.00")
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
    accrue_everything(at=NOVEMBER_OVER)
    window = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(window, ledger.llm, -UNIT), at=NOVEMBER_OVER)

    # An hour of November; what October has less was given back by the credit.
    assert accrued("2026-11") == [Decimal("2.00")]


def late_in_two_months(ledger: Ledger, deltas: tuple[int, int]) -> None:
    """Charge late use of October to November, and more of it to December; both stay open."""
    window = MeteringWindow.objects.earliest("start_at")
    for at, delta in zip((NOVEMBER_OVER, DECEMBER_OVER), deltas, strict=True):
        accrue_late(correct(window, ledger.llm, *[delta] * 2), at=at - HOUR)


def test_two_open_months_use_up_a_credit_once(ledger: Ledger, october: Invoice) -> None:
    note(october, "-3.00")
    late_in_two_months(ledger, (-UNIT, -UNIT))

    # Of the four pods that are taken back, three were given back by the credit.
    assert accrued("2026-12") == [Decimal("-1.00")]


def test_two_open_months_take_back_a_minimum_charge_once(ledger: Ledger) -> None:
    rule = MinimumRule(Decimal("12.00"), "2026-10", "2026-10")
    publish_minimum(organization=ledger.organization, rule=rule, actor=DORA, at=AT)
    october = finalize(draft(ledger.organization, "2026-10"))
    late_in_two_months(ledger, (UNIT // 2, UNIT))

    # October has 13.00 now, of which 12.00 are billed: 3.00 more use, and no minimum of 2.00.
    assert october.total == Decimal("12.00")
    assert accrued("2026-12") == [Decimal("1.00")]


def test_two_open_months_take_back_a_discount_once(ledger: Ledger) -> None:
    publish_tiers(price_book=ledger.book, rule=make_rule((0, 0), (4, 50)), actor=DORA, at=AT)
    october = finalize(draft(ledger.organization, "2026-10"))
    late_in_two_months(ledger, (-UNIT, -UNIT))

    # Five hours had 1.00 off; three have nothing off.
    assert october.total == Decimal("9.00")
    assert accrued("2026-12") == [Decimal("-3.00")]


def test_the_accrual_has_what_a_month_closed_after_its_end_used_up() -> None:
    # The database's own clock says when a month was closed: it is over since.
    begin_at, end_at = MONTH_START - 30 * 24 * HOUR, MONTH_START + 24 * HOUR
    payer, cluster, book = make_organization(), make_cluster(), make_book()
    project = make_project(payer, "llm")
    assign(payer, book, begin_at=begin_at)
    make_price(book, begin_at=begin_at)
    window = sealed_window(cluster, [Use(project, UNIT)] * 10, start_at=begin_at)
    accrue_everything(at=end_at)
    note(finalize(draft(payer, "2026-09", at=end_at)), "-3.00")
    accrue_late(correct(window, project, *[-UNIT] * 4), at=end_at)
    finalize(draft(payer, "2026-10"))

    # Ten pods of September, and one that is taken back beyond the credit.
    assert accrued("2026-10") == [Decimal("9.00")]
