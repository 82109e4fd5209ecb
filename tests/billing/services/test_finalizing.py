"""Finalizing gives one gapless number, freezes the invoice and closes the period, once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection, connections, transaction

from billing.domain.documents.document import digest_of, utc_text
from billing.domain.errors import DraftStaleError, FourEyesError, PeriodNotReadyError
from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine, InvoiceSeries
from billing.selectors.documents.membership import billed_charges, with_line
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_window,
    month_of_use,
    seal,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START

LATER = AT + HOUR


def drafted(ledger: Ledger) -> Invoice:
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    return draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)


@pytest.mark.django_db
class TestOne:
    def test_a_final_invoice_has_number_digest_and_linked_charges(self) -> None:
        draft = drafted(month_of_use([("llm", 3600), ("vision", 1800)]))

        invoice = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)

        invoice.refresh_from_db()
        issued_at = invoice.finalized_at
        assert issued_at is not None
        reference = f"GL-{issued_at.year}-000001"
        assert (invoice.state, invoice.number, invoice.reference) == ("final", 1, reference)
        assert invoice.finalized_by == "eric"
        assert invoice.document == {
            **draft.document,
            "state": "final",
            "reference": reference,
            "issued_at": utc_text(issued_at),
            "due_on": (issued_at.date() + timedelta(days=30)).isoformat(),
        }
        assert invoice.content_sha256 == digest_of(invoice.document)
        assert invoice.period.state == "closed"
        assert invoice.period.closed_at == issued_at
        lines = {line.pk: line for line in InvoiceLine.objects.select_related("project")}
        owned = with_line(Charge.objects.all()).values_list("line_id", flat=True)
        assert sorted((lines[key].project.slug, lines[key].unit_seconds) for key in owned) == [
            ("llm", 3600),
            ("vision", 1800),
        ]
        entry = AuditEntry.objects.get(action="billing:invoice:finalize")
        assert entry.facts == {
            "reference": reference,
            "total": "3.00",
            "currency": "EUR",
            "content_sha256": invoice.content_sha256,
        }

    def test_finalizing_again_changes_nothing(self) -> None:
        draft = drafted(month_of_use([("llm", 3600)]))
        first = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)
        entries = AuditEntry.objects.count()

        again = finalize_invoice(
            invoice_id=draft.pk, actor=DORA, at=LATER + HOUR, expected_version=1, terms=SITE_TERMS
        )

        assert (again.number, again.finalized_at) == (first.number, first.finalized_at)
        assert InvoiceSeries.objects.get().next_number == 2
        assert AuditEntry.objects.count() == entries

    def test_who_drafted_may_not_finalize(self) -> None:
        draft = drafted(month_of_use([("llm", 3600)]))

        with pytest.raises(FourEyesError) as refused:
            finalize_invoice(invoice_id=draft.pk, actor=DORA, at=LATER, terms=SITE_TERMS)

        assert (refused.value.code, refused.value.status) == ("invoice_needs_four_eyes", 403)
        untouched(draft)

    def test_who_drafted_may_finalize_where_the_site_says_so(self) -> None:
        draft = drafted(month_of_use([("llm", 3600)]))

        invoice = finalize_invoice(
            invoice_id=draft.pk, actor=DORA, at=LATER, terms=replace(SITE_TERMS, is_four_eyes=False)
        )

        assert invoice.state == "final"

    def test_only_the_draft_that_was_looked_at_is_finalized(self) -> None:
        ledger = month_of_use([("llm", 3600)])
        draft = drafted(ledger)
        drafted(ledger)

        with pytest.raises(StaleVersionError):
            finalize_invoice(
                invoice_id=draft.pk, actor=ERIC, at=LATER, expected_version=1, terms=SITE_TERMS
            )

        untouched(draft)

    def test_a_charge_that_came_after_the_draft_makes_it_stale(self) -> None:
        ledger = month_of_use([("llm", 3600)])
        draft = drafted(ledger)
        charge = Charge.objects.get()
        window = seal(make_window(ledger.cluster, MONTH_START - HOUR))
        with connection.cursor() as cursor:
            cursor.execute("SELECT billing_ensure_charge_partitions(%s)", [[window.start_at]])
        charge.pk, charge.window_id, charge.window_start = None, window.pk, window.start_at
        charge.save(force_insert=True)

        with pytest.raises(DraftStaleError) as refused:
            finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)

        assert refused.value.facts == {"differences": 1}
        untouched(draft)

    def test_a_total_that_is_not_the_sum_of_its_lines_makes_it_stale(self) -> None:
        draft = drafted(month_of_use([("llm", 3600)]))
        Invoice.objects.filter(pk=draft.pk).update(total=Decimal("2.01"))

        with pytest.raises(DraftStaleError):
            finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)

        untouched(draft)

    def test_what_came_up_since_the_draft_is_reported(self) -> None:
        ledger = month_of_use([("llm", 3600)])
        draft = drafted(ledger)
        charge = Charge.objects.get()
        charge.pk, charge.owner, charge.unit_seconds = None, "nobody", 5
        charge.save(force_insert=True)

        with pytest.raises(PeriodNotReadyError) as refused:
            finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)

        assert [p.code for p in refused.value.problems] == ["usage_not_charged"]
        untouched(draft)

    def test_use_that_arrives_later_is_posted_to_the_next_period(self) -> None:
        ledger = make_ledger()
        sealed_window(ledger.cluster, [Use(ledger.llm)])
        seal_rest_of_month(ledger.cluster)
        accrue_everything()
        finalize_invoice(invoice_id=drafted(ledger).pk, actor=ERIC, at=LATER, terms=SITE_TERMS)
        other = make_ledger("late")
        assert other.cluster == ledger.cluster

        sealed_window(
            type(ledger.cluster).objects.create(
                slug="new", name="New", metered_from=AT, created_at=AT
            ),
            [Use(ledger.llm)],
        )
        accrue_everything()

        assert set(Charge.objects.values_list("period__label", "period__state")) == {
            ("2026-10", "closed"),
            ("2026-11", "open"),
        }


def untouched(draft: Invoice) -> None:
    """Assert that a draft is still one and that no number was taken."""
    now = Invoice.objects.get(pk=draft.pk)
    assert (now.state, now.number, now.content_sha256) == ("draft", None, "")
    assert BillingPeriod.objects.get(pk=draft.period_id).state == "open"
    assert not billed_charges(Charge.objects.all()).exists()
    assert not InvoiceSeries.objects.exists()
    assert not AuditEntry.objects.filter(action="billing:invoice:finalize").exists()


class InjectedError(Exception):
    """Takes a finalization back after its number was taken."""


@pytest.mark.usefixtures("committed_db")
def test_eight_finalizers_at_once_make_one_final_invoice() -> None:
    draft = drafted(month_of_use([("llm", 3600)]))

    def finalize(_: int) -> tuple[int | None, str]:
        try:
            invoice = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)
        finally:
            connections.close_all()
        return invoice.number, invoice.content_sha256

    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = set(pool.map(finalize, range(8)))

    assert len(answers) == 1
    assert {number for number, _ in answers} == {1}
    assert InvoiceSeries.objects.get().next_number == 2
    assert AuditEntry.objects.filter(action="billing:invoice:finalize").count() == 1
    assert InvoiceLine.objects.count() == 1


@pytest.mark.usefixtures("committed_db")
def test_numbers_have_no_gap_whatever_is_rolled_back() -> None:
    drafts = [drafted(month_of_use([("llm", 3600)], slug=f"payer-{n}")).pk for n in range(12)]

    @transaction.atomic
    def finalize_in_vain(position: int) -> None:
        finalize_invoice(invoice_id=drafts[position], actor=ERIC, at=LATER, terms=SITE_TERMS)
        raise InjectedError

    def finalize(position: int) -> None:
        try:
            if position % 3 == 0:
                with pytest.raises(InjectedError):
                    finalize_in_vain(position)
            finalize_invoice(invoice_id=drafts[position], actor=ERIC, at=LATER, terms=SITE_TERMS)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(finalize, range(len(drafts))))

    numbers = Invoice.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, 13))
    assert InvoiceSeries.objects.get().next_number == 13
