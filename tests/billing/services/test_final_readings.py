"""What drafts are held against is read together, and read anew where something changed since."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.domain.errors import DraftStaleError
from billing.domain.pricing.tier_schedule import TierSpan
from billing.models import Invoice
from billing.selectors.documents.finals import FinalReading, read_finals
from billing.services.finalizing import finalize_invoice
from billing.services.pricing.tiers import publish_tiers
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END, MONTH_START, bind
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
SHARED = 3
"""Statements for drafts, months and final documents, which a finalization makes in any case."""
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@shared_rows
def ledger() -> Ledger:
    """October with 2 h at 2.00."""
    return month_of_use([("llm", 3600), ("llm", 3600)])


def reading_of(invoice: Invoice) -> FinalReading:
    return read_finals([invoice.pk], at=AT)[invoice.pk]


def finalize_with(invoice: Invoice, reading: FinalReading) -> Invoice:
    return finalize_invoice(
        invoice_id=invoice.pk, actor=ERIC, at=AT, terms=SITE_TERMS, reading=reading
    )


def test_months_of_many_organizations_are_read_in_as_many_statements_as_one() -> None:
    drafts = [
        draft(month_of_use([("llm", 3600)], slug=f"payer-{n}").organization, "2026-10")
        for n in range(5)
    ]

    with CaptureQueriesContext(connection) as one:
        read_finals([drafts[0].pk], at=AT)
    with CaptureQueriesContext(connection) as five:
        readings = read_finals([invoice.pk for invoice in drafts], at=AT)

    assert len(five) == len(one)
    with CaptureQueriesContext(connection) as alone:
        finalize(drafts[0])
    with CaptureQueriesContext(connection) as read_before:
        finals = [finalize_with(invoice, readings[invoice.pk]) for invoice in drafts[1:]]
    assert len(read_before) == 4 * (len(alone) - len(one) + SHARED)
    assert [(final.number, final.total) for final in finals] == [
        (number, Decimal("2.00")) for number in (2, 3, 4, 5)
    ]


def test_a_reading_of_an_earlier_draft_is_not_used(ledger: Ledger) -> None:
    earlier = reading_of(draft(ledger.organization, "2026-10"))
    publish_tiers(price_book=ledger.book, rule=make_rule(), actor=DORA, at=AT)
    invoice = draft(ledger.organization, "2026-10")

    final = finalize_with(invoice, earlier)

    assert [line.kind for line in final.lines.order_by("position")] == ["usage", "tier"]


def test_a_document_that_became_final_since_counts(ledger: Ledger) -> None:
    rule = make_rule((0, 0), ("2.5", 50), span=TierSpan.FISCAL_YEAR, year_begins=10)
    publish_tiers(price_book=ledger.book, rule=rule, actor=DORA, at=AT)
    bind(ledger.cluster, "nov", ledger.llm, begin_at=MONTH_END, end_at=MONTH_END + HOUR)
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
    accrue_everything()
    october = draft(ledger.organization, "2026-10")
    november = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)
    before = read_finals([november.pk], at=NOVEMBER_OVER)[november.pk]
    finalize(october)

    with pytest.raises(DraftStaleError) as refused:
        finalize_invoice(
            invoice_id=november.pk,
            actor=ERIC,
            at=NOVEMBER_OVER,
            terms=SITE_TERMS,
            reading=before,
        )

    assert refused.value.facts == {"changed": "tiers"}


def test_charges_are_added_up_anew(ledger: Ledger) -> None:
    invoice = draft(ledger.organization, "2026-10")
    reading = reading_of(invoice)
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 9 * HOUR)
    accrue_everything()

    with pytest.raises(DraftStaleError) as refused:
        finalize_with(invoice, reading)

    assert refused.value.facts == {"differences": 1}


def test_final_documents_and_further_runs_have_no_reading(ledger: Ledger) -> None:
    final = finalize(draft(ledger.organization, "2026-10"))

    assert read_finals([final.pk], at=AT) == {}
