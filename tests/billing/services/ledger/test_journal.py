"""The journal: each event once, balanced, dated in an open month, and never changed."""

from datetime import date
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Sum

from billing.domain.ledger.errors import AccountingMonthError
from billing.domain.pricing.minimum import MinimumRule
from billing.models import AccountingMonth, Invoice, JournalEntry, Posting
from billing.selectors.ledger.reconciliation import check_journal
from billing.services.crediting import draft_credit
from billing.services.ledger.documents import post_missing_documents
from billing.services.ledger.journal import accrue_unbilled, close_accounting_month
from billing.services.pricing.minimums import publish_minimum
from billing.services.pricing.tiers import publish_tiers
from tenants.models import AuditEntry, Organization
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, TICK, Ledger, month_of_use
from tests.support.billing.payments import pay
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
FIRST = Decimal("2.00")


def balances(organization: Organization) -> dict[str, Decimal]:
    """Return what each account holds of an organization, without those at zero."""
    rows = Posting.objects.filter(entry__organization=organization).values_list("account")
    return {code: total for code, total in rows.annotate(total=Sum("amount")) if total}


def dates(event: str) -> list[tuple[date, date]]:
    rows = JournalEntry.objects.filter(event=event).order_by("posting_on")
    return list(rows.values_list("document_on", "posting_on"))


def issued_on(document: Invoice) -> date:
    assert document.finalized_at is not None
    return document.finalized_at.date()


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def expect_verified() -> None:
    assert check_journal({}).differences == ()


def test_a_final_invoice_is_posted_with_its_finalization(final: Invoice) -> None:
    entry = JournalEntry.objects.get()

    assert (entry.event, entry.reason, entry.posted_by) == ("invoice", final.reference, "eric")
    assert entry.document_on == entry.posting_on == issued_on(final)
    assert balances(final.organization) == {"receivables": 3, "revenue": -3}
    expect_verified()


def test_a_credit_note_takes_from_receivables(final: Invoice) -> None:
    line = final.lines.get(project__slug="llm")
    finalize(
        draft_credit(
            invoice_id=final.pk,
            amounts={line.pk: FIRST},
            reason="Broken.",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )
    )

    assert balances(final.organization) == {"receivables": 1, "revenue": -1}
    expect_verified()


def test_documents_without_an_entry_are_posted_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("billing.services.finalizing.post_document", lambda *_, **__: None)
    final = finalize(draft(ledger.organization, "2026-10"))
    assert check_journal({}).differences == (
        "Open items of acme are 3.0000 EUR on receivables; the journal has 0.",
    )

    assert [post_missing_documents(payment_days=30, actor=TICK, at=AT) for _ in range(2)] == [1, 0]

    assert balances(final.organization) == {"receivables": 3, "revenue": -3}
    entry = AuditEntry.objects.get(action="billing:journal:post_missing")
    assert entry.facts == {"entries": 1}
    expect_verified()


@pytest.mark.usefixtures("final")
def test_a_closed_month_takes_no_entry_and_later_ones_keep_their_date() -> None:
    close_accounting_month(label="2026-10", actor=DORA, at=AT)

    booked = date(2026, 10, 20)
    pay(booked_on=booked)

    assert dates("payment") == [(booked, date(2026, 11, 1))]
    with pytest.raises(DatabaseError, match="is closed"), transaction.atomic():
        JournalEntry.objects.create(
            event="payment",
            source_key="by hand",
            currency="EUR",
            document_on=booked,
            posting_on=booked,
            reason="By hand.",
            posted_by="dora",
            posted_at=AT,
        )
    entry = AuditEntry.objects.get(action="billing:accounting_month:close")
    assert (entry.actor_label, entry.object_id) == ("dora", "2026-10")


def test_only_a_month_that_is_over_is_closed_and_once() -> None:
    close_accounting_month(label="2026-10", actor=DORA, at=AT)

    for label in ("2026-09", "2026-10", f"{AT:%Y-%m}", "2031-01"):
        with pytest.raises(AccountingMonthError) as caught:
            close_accounting_month(label=label, actor=DORA, at=AT)
        assert caught.value.facts == {"last_closed": "2026-10"}
    assert list(AccountingMonth.objects.values_list("label", flat=True)) == ["2026-10", "0000-00"]


def test_unbilled_use_is_accrued_at_the_end_of_a_month_and_reversed_after(ledger: Ledger) -> None:
    other = month_of_use([("virus", 1801)], slug="umbrella")

    assert accrue_unbilled(label="2026-10", actor=DORA, at=AT) == 4
    assert accrue_unbilled(label="2026-10", actor=DORA, at=AT) == 0

    assert dates("accrual") == [(date(2026, 10, 31), date(2026, 10, 31))] * 2
    assert dates("accrual_reversal") == [(date(2026, 11, 1), date(2026, 11, 1))] * 2
    accrued = Posting.objects.filter(entry__event="accrual", account="unbilled_receivables")
    assert dict(accrued.values_list("entry__organization__slug", "amount")) == {
        "acme": Decimal("3.0000"),
        "umbrella": Decimal("1.0000"),
    }
    assert balances(ledger.organization) == balances(other.organization) == {}


def test_use_that_was_billed_after_the_end_of_the_month_is_accrued_all_the_same(
    final: Invoice,
) -> None:
    assert accrue_unbilled(label="2026-10", actor=DORA, at=AT) == 2
    assert balances(final.organization) == {"receivables": 3, "revenue": -3}


@pytest.mark.parametrize("is_billed", [True, False])
def test_tiers_and_minimum_charges_are_accrued_as_they_are_billed(
    ledger: Ledger, *, is_billed: bool
) -> None:
    other = month_of_use([("virus", 3600)], slug="umbrella")
    rule = make_rule((0, 50))
    publish_tiers(price_book=ledger.book, rule=rule, actor=DORA, at=AT)
    minimum = MinimumRule(amount=Decimal("2.50"), first_month="2026-10")
    publish_minimum(organization=other.organization, rule=minimum, actor=DORA, at=AT)
    if is_billed:
        finalize(draft(ledger.organization, "2026-10"))
        finalize(draft(other.organization, "2026-10"))

    accrue_unbilled(label="2026-10", actor=DORA, at=AT)

    # 3.00 less half of it; 2.00 and what lacks to 2.50.
    accrued = Posting.objects.filter(entry__event="accrual", account="unbilled_receivables")
    assert dict(accrued.values_list("entry__organization__slug", "amount")) == {
        "acme": Decimal("1.5000"),
        "umbrella": Decimal("2.5000"),
    }


def test_no_accrual_is_posted_to_a_closed_month(ledger: Ledger) -> None:
    close_accounting_month(label="2026-10", actor=DORA, at=AT)

    with pytest.raises(AccountingMonthError):
        accrue_unbilled(label="2026-10", actor=DORA, at=AT)
    assert balances(ledger.organization) == {}


@pytest.mark.parametrize("amounts", [("1",), ("1", "-2"), ()])
def test_an_entry_that_is_not_balanced_is_refused(ledger: Ledger, amounts: tuple[str, ...]) -> None:
    def post() -> None:
        entry = JournalEntry.objects.create(
            event="payment",
            source_key="by hand",
            organization=ledger.organization,
            currency="EUR",
            document_on=AT.date(),
            posting_on=AT.date(),
            reason="By hand.",
            posted_by="dora",
            posted_at=AT,
        )
        for account, amount in zip(("bank", "revenue"), amounts, strict=False):
            Posting.objects.create(entry=entry, account_id=account, amount=Decimal(amount))
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(DatabaseError, match="add up to"), transaction.atomic():
        post()
    assert not JournalEntry.objects.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_journalentry SET reason = ''",
        "DELETE FROM billing_posting",
        "TRUNCATE billing_posting",
        "UPDATE billing_ledgeraccount SET number = '9999'",
        "UPDATE billing_accountingmonth SET label = '2099-01'",
    ],
)
def test_the_journal_is_never_changed(final: Invoice, statement: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert balances(final.organization) == {"receivables": 3, "revenue": -3}


OF_NOTHING = """INSERT INTO billing_journalentry (id, event, source_key, organization_id, currency,
  document_on, posting_on, reason, posted_by, posted_at) SELECT gen_random_uuid(), event,
  'document:x', organization_id, currency, document_on, posting_on, reason, posted_by, posted_at
  FROM billing_journalentry RETURNING id"""


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("SELECT id FROM billing_journalentry", "The journal entry document:{} has"),
        (OF_NOTHING, "The journal entry document:x has"),
    ],
    ids=["of a document", "of nothing"],
)
def test_postings_that_no_event_has_are_found(final: Invoice, entry: str, found: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH e AS ({entry}) INSERT INTO billing_posting (id, entry_id, account_id, amount)"  # noqa: S608 - Constants above.
            " SELECT gen_random_uuid(), e.id, x.account, x.amount FROM e,"
            " (VALUES ('bad_debt', 5), ('rounding', -5)) AS x(account, amount)"
        )
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    about = found.format(final.pk)
    assert check_journal({}).differences == (
        f"{about} 5.0000 EUR on bad_debt, and its source 0.",
        f"{about} -5.0000 EUR on rounding, and its source 0.",
    )
