"""Tier lines on documents: over months, with late use, credited, replaced and checked."""

from decimal import Decimal
from typing import Any

import pytest

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.document_text import invoice_text
from billing.domain.errors import (
    CreditTooLargeError,
    DraftStaleError,
    TierMonthsClosedError,
    TierOverlapError,
)
from billing.domain.pricing.tier_schedule import TierKind, TierScope, TierSpan
from billing.models import BillingPeriod, Invoice, TierSchedule
from billing.selectors.verification import check_invoices, check_lines
from billing.services.crediting import draft_credit, void_invoice
from billing.services.pricing.tiers import publish_tiers
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END, bind
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@shared_rows
def ledger() -> Ledger:
    """October with 2 h in one project and 1 h in another, at 2.00."""
    return month_of_use([("llm", 3600), ("llm", 3600), ("vision", 3600)])


def publish(ledger: Ledger, *bands: tuple[Any, Any], **changes: Any) -> TierSchedule:  # noqa: ANN401
    return publish_tiers(
        price_book=ledger.book, rule=make_rule(*bands, **changes), actor=DORA, at=AT
    )


def tiers_of(invoice: Invoice) -> list[tuple[str, int, str, str]]:
    """Return project, band, span and amount of each tier line."""
    rows = invoice.lines.filter(kind="tier").order_by("position")
    return [(row.project.slug, row.tier_band, row.tier_span, f"{row.amount:.2f}") for row in rows]


def expect_verified() -> None:
    for check in (check_invoices, check_lines):
        assert check({}).differences == ()


def use_in_november(ledger: Ledger, *, hours: int) -> None:
    bind(ledger.cluster, "nov", ledger.llm, begin_at=MONTH_END, end_at=MONTH_END + HOUR)
    sealed_window(ledger.cluster, [Use(ledger.llm)] * hours, start_at=MONTH_END)
    accrue_everything()


def test_a_band_is_a_line_of_each_project_and_usage_lines_stay(ledger: Ledger) -> None:
    publish(ledger)

    final = finalize(draft(ledger.organization, "2026-10"))

    assert [(row.kind, f"{row.amount:.2f}") for row in final.lines.order_by("position")] == [
        ("usage", "4.00"),
        ("tier", "-1.33"),
        ("usage", "2.00"),
        ("tier", "-0.67"),
    ]
    assert (final.total, final.unit_seconds) == (Decimal("4.00"), 10800)
    printed = final.document["lines"][1]
    assert printed["description"] == "Bulk: 50 % off above 1 unit-hours, October 2026"
    assert printed["tier"]["total_in_scope"] == "3.000000"
    assert (printed["tier"]["in_band"], printed["tier"]["list_amount_in_band"]) == (
        "2.000000",
        "4.00",
    )
    expect_verified()
    assert render_pdf(final.document).startswith(b"%PDF")
    assert '"Bulk: 50 % off' in render_csv(final.document).decode()
    assert invoice_text(final.document).lines[1].unit_hours == ""
    shown = invoice_text(final.document)
    assert (shown.discount, shown.total) == ("-2.00", "4.00")


def test_without_a_schedule_a_document_has_no_tier_lines(ledger: Ledger) -> None:
    made = draft(ledger.organization, "2026-10")

    assert tiers_of(made) == []
    assert not any("kind" in line for line in made.document["lines"])


def test_late_use_is_tiered_with_its_month_and_adds_up_to_one_computation(ledger: Ledger) -> None:
    publish(ledger, (0, 0), (2, 10), (4, 50))
    first = finalize(draft(ledger.organization, "2026-10"))
    assert tiers_of(first) == [
        ("llm", 2, "2026-10", "-0.13"),
        ("vision", 2, "2026-10", "-0.07"),
    ]

    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 3600, 3600))
    second = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    # All of October: 5 h at 2.00; 2 h of them at 10 %, 1 h at 50 %, four fifths of it llm's.
    assert tiers_of(second) == [
        ("llm", 2, "2026-10", "-0.19"),
        ("llm", 3, "2026-10", "-0.80"),
        ("vision", 2, "2026-10", "-0.01"),
        ("vision", 3, "2026-10", "-0.20"),
    ]
    assert first.total + second.total == Decimal("10.00") - Decimal("1.40")
    assert second.document["lines"][1]["tier"]["billed_amount"] == "-0.13"
    expect_verified()


def test_a_fiscal_year_is_crossed_in_a_later_month(ledger: Ledger) -> None:
    publish(ledger, (0, 0), ("3.2", 50), span=TierSpan.FISCAL_YEAR, year_begins=10)
    use_in_november(ledger, hours=1)
    first = finalize(draft(ledger.organization, "2026-10"))
    second = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    assert tiers_of(first) == []
    # 4 h at 2.00: 0.8 h of them at 50 %, three quarters of it llm's.
    assert tiers_of(second) == [
        ("llm", 2, "2026-10", "-0.60"),
        ("vision", 2, "2026-10", "-0.20"),
    ]
    expect_verified()


def test_a_volume_band_that_is_reached_later_replaces_the_one_before(ledger: Ledger) -> None:
    publish(
        ledger,
        (0, 10),
        (3, 20),
        kind=TierKind.VOLUME,
        span=TierSpan.FISCAL_YEAR,
        year_begins=10,
        scope=TierScope.PROJECT,
    )
    use_in_november(ledger, hours=2)
    first = finalize(draft(ledger.organization, "2026-10"))
    second = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    assert tiers_of(first) == [("llm", 1, "2026-10", "-0.40"), ("vision", 1, "2026-10", "-0.20")]
    assert tiers_of(second) == [("llm", 1, "2026-10", "0.40"), ("llm", 2, "2026-10", "-1.60")]
    expect_verified()


def test_a_schedule_published_after_the_draft_makes_it_stale(ledger: Ledger) -> None:
    made = draft(ledger.organization, "2026-10")
    publish(ledger)

    with pytest.raises(DraftStaleError) as refused:
        finalize(made)

    assert refused.value.facts == {"changed": "tiers"}
    made.refresh_from_db()
    assert (made.state, made.total) == ("draft", Decimal("6.00"))
    assert finalize(draft(ledger.organization, "2026-10")).total == Decimal("4.00")


def test_a_void_invoice_gives_back_its_tiers_and_the_replacement_has_them(ledger: Ledger) -> None:
    publish(ledger)
    final = finalize(draft(ledger.organization, "2026-10"))

    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(replacement)

    note.refresh_from_db()
    replacement.refresh_from_db()
    assert (note.total, replacement.total) == (Decimal("-4.00"), Decimal("4.00"))
    assert tiers_of(note) == [("llm", 2, "2026-10", "1.33"), ("vision", 2, "2026-10", "0.67")]
    assert tiers_of(replacement) == tiers_of(final)
    again = void_invoice(
        invoice_id=replacement.pk, reason="Again.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    assert [one.total for one in again] == [Decimal("-4.00"), Decimal("4.00")]
    expect_verified()


def test_a_month_of_a_year_is_replaced_after_the_next_one_and_the_sum_stays(
    ledger: Ledger,
) -> None:
    publish(ledger, (0, 0), ("2.5", 50), span=TierSpan.FISCAL_YEAR, year_begins=10)
    use_in_november(ledger, hours=1)
    first = finalize(draft(ledger.organization, "2026-10"))
    second = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)

    void = void_invoice(
        invoice_id=first.pk, reason="Address.", actor=DORA, at=NOVEMBER_OVER, terms=SITE_TERMS
    )
    finalize(void[1], at=NOVEMBER_OVER)

    # 4 h at 2.00: one and a half of them at 50 %.
    assert first.total + second.total == Decimal("8.00") - Decimal("1.50")
    documents = Invoice.objects.filter(state="final")
    assert [one.total for one in documents.filter(run=2).order_by("total")] == [
        -first.total,
        first.total,
    ]
    expect_verified()


def test_a_credit_gives_back_no_more_than_tiers_left_of_the_invoice(ledger: Ledger) -> None:
    publish(ledger, (0, 50))
    final = finalize(draft(ledger.organization, "2026-10"))
    usage = {row.project.slug: row for row in final.lines.filter(kind="usage")}
    tier = final.lines.filter(kind="tier").first()
    assert tier is not None

    for amounts in (
        {usage["llm"].pk: Decimal("3.01")},
        {usage["llm"].pk: Decimal("2.00"), usage["vision"].pk: Decimal("1.01")},
        {tier.pk: Decimal("0.01")},
    ):
        with pytest.raises(CreditTooLargeError):
            draft_credit(
                invoice_id=final.pk,
                amounts=amounts,
                reason="x",
                actor=DORA,
                at=AT,
                terms=SITE_TERMS,
            )

    assert Invoice.objects.count() == 1
    part = draft_credit(
        invoice_id=final.pk,
        amounts={usage["llm"].pk: Decimal("3.00")},
        reason="x",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )
    assert finalize(part).total == Decimal("-3.00")


def test_a_schedule_is_refused_over_closed_months_and_beside_another(ledger: Ledger) -> None:
    finalize(draft(ledger.organization, "2026-10"))

    with pytest.raises(TierMonthsClosedError) as closed:
        publish(ledger)
    publish(ledger, first_month="2026-11")
    with pytest.raises(TierOverlapError) as overlap:
        publish(ledger, first_month="2027-09", last_month="2028-01")

    assert closed.value.facts == {"month": "2026-10"}
    assert overlap.value.code == "tier_schedule_overlap"
    assert TierSchedule.objects.count() == 1


def test_an_organization_of_another_book_has_no_tiers_of_this_one(ledger: Ledger) -> None:
    other = month_of_use([("llm", 3600)] * 2, "umbrella")
    publish(ledger)

    assert tiers_of(draft(other.organization, "2026-10")) == []


@pytest.mark.parametrize("projects", [1, 12])
def test_tiers_cost_one_statement_whatever_projects_and_bands(
    projects: int,
    django_assert_num_queries: Any,  # noqa: ANN401 - A fixture.
) -> None:
    ledger = month_of_use([(f"project-{n}", 3600) for n in range(projects)])
    publish(ledger, *((n, n + 1) for n in range(10)))

    with django_assert_num_queries(19):
        draft(ledger.organization, "2026-10")


def test_the_bill_to_date_shows_the_tier_line_in_the_open_months_document(ledger: Ledger) -> None:
    schedule = publish(ledger)
    draft(ledger.organization, "2026-10")
    made = draft(ledger.organization, "2026-10")

    (line, *_) = made.lines.filter(kind="tier")
    assert (line.tier_schedule, line.size, line.unit_seconds) == (schedule, "", 0)
    assert BillingPeriod.objects.get(label="2026-10").state == "open"


def test_what_a_tier_line_prints_is_as_of_its_finalization(ledger: Ledger) -> None:
    publish(ledger, (0, 10), span=TierSpan.FISCAL_YEAR)
    use_in_november(ledger, hours=3)
    october = draft(ledger.organization, "2026-10")
    november = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)
    finalize(october)

    with pytest.raises(DraftStaleError):
        finalize(november, at=NOVEMBER_OVER)

    final = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)
    assert (final.document["lines"][1]["tier"]["total_in_scope"], f"{final.total:.2f}") == (
        "6.000000",
        "5.40",
    )
