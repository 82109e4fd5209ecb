"""Opening balances: posted once, settled, aged and stated like invoices."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.errors import CurrencyUnknownError
from billing.domain.ledger.errors import (
    AllocationTooLargeError,
    OpeningBalanceExistsError,
    OpeningBalanceInvalidError,
    PaymentNotAllocatableError,
)
from billing.models import JournalEntry, OpeningBalance, Payment, PaymentAllocation
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing, statement
from billing.selectors.ledger.settlement import with_open_balance
from billing.services.ledger.journal import close_accounting_month
from billing.services.ledger.opening_balances import record_opening_balance
from billing.services.ledger.settling import allocate_payment, release_payment
from tenants.models import AuditEntry, Organization
from tests.billing.services.ledger.test_journal import balances
from tests.support.billing.ledger import DORA, month_of_use
from tests.support.billing.payments import pay
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

TODAY = AT.date()
DAY = timedelta(days=1)


@shared_rows
def organization() -> Organization:
    return month_of_use([("llm", 3600)]).organization


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that journal and open items agree, as at a commit."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert check_journal({}).differences == ()


def take_over(organization: Organization, amount: str = "5.00", **fields: Any) -> OpeningBalance:  # noqa: ANN401 - Any field.
    """Return an opening balance, by default of 5.00 EUR that are 40 days overdue."""
    due_on = None if str(amount).startswith("-") else TODAY - 40 * DAY
    return record_opening_balance(
        **{
            "organization": organization,
            "reference": "OLD-7",
            "amount": Decimal(amount),
            "currency": "EUR",
            "dated_on": TODAY - DAY,
            "due_on": due_on,
            "actor": DORA,
            "at": AT,
            **fields,
        }
    )


def state_of(balance: OpeningBalance) -> tuple[str, str]:
    row = with_open_balance(OpeningBalance.objects.filter(pk=balance.pk), on=TODAY).get()
    return row.payment_status, f"{row.open_amount:.2f}"


def test_what_is_owed_is_posted_aged_and_stated(organization: Organization) -> None:
    balance = take_over(organization)

    assert balances(organization) == {"opening_balance": -5, "receivables": 5}
    assert state_of(balance) == ("overdue", "5.00")
    assert ageing(on=TODAY - 2 * DAY, organization_ids=None) == ()
    (row,) = ageing(on=TODAY, organization_ids=None)
    assert (row.days_31_to_60, row.total) == (Decimal(5), Decimal(5))
    made = statement(organization.pk, currency="EUR", begin_on=date(2026, 1, 1), end_on=TODAY + DAY)
    assert [(line.event, line.reference, line.balance) for line in made.lines] == [
        ("opening_balance", "OLD-7", Decimal(5))
    ]
    entry = AuditEntry.objects.get(action="billing:opening_balance:record")
    assert (entry.organization_id, entry.facts["total"]) == (organization.pk, "5.00")


def test_it_is_settled_in_parts_and_released(organization: Organization) -> None:
    balance = take_over(organization)
    payment = pay(amount="9.00")

    def allocate(amount: str | None = None) -> Payment:
        return allocate_payment(
            payment_id=payment.pk,
            opening_balance_id=balance.pk,
            amount=None if amount is None else Decimal(amount),
            actor=DORA,
            at=AT,
        )

    with pytest.raises(AllocationTooLargeError):
        allocate("5.01")
    assert allocate("2.00").organization_id == organization.pk
    assert state_of(balance) == ("overdue", "3.00")
    allocate()
    assert state_of(balance) == ("paid", "0.00")
    with pytest.raises(PaymentNotAllocatableError):
        allocate()
    assert balances(organization) == {
        "clearing": 9,
        "customer_credit": -4,
        "opening_balance": -5,
    }
    release_payment(payment_id=payment.pk, reason="Wrong one.", actor=DORA, at=AT)
    assert state_of(balance) == ("overdue", "5.00")


def test_credit_is_money_that_settles_what_is_owed(organization: Organization) -> None:
    owed = take_over(organization)
    credit = take_over(organization, "-5.00", reference="OLD-8")

    assert state_of(credit) == ("credited", "0.00")
    (row,) = ageing(on=TODAY, organization_ids=None)
    assert (row.credit, row.total) == (Decimal(-5), Decimal(0))
    assert credit.credit_id is not None
    with pytest.raises(PaymentNotAllocatableError):
        allocate_payment(
            payment_id=credit.credit_id, opening_balance_id=credit.pk, actor=DORA, at=AT
        )
    allocate_payment(payment_id=credit.credit_id, opening_balance_id=owed.pk, actor=DORA, at=AT)
    assert state_of(owed) == ("paid", "0.00")
    assert balances(organization) == {}


def test_a_reference_is_recorded_once_in_an_organization(organization: Organization) -> None:
    take_over(organization)

    with pytest.raises(OpeningBalanceExistsError):
        take_over(organization, "-1.00")

    assert (OpeningBalance.objects.count(), Payment.objects.count()) == (1, 0)
    other = month_of_use([("llm", 3600)], slug="umbrella").organization
    assert take_over(other).reference == "OLD-7"


def test_a_closed_month_keeps_its_entries(organization: Organization) -> None:
    close_accounting_month(label="2026-10", actor=DORA, at=AT)

    take_over(organization, dated_on=date(2026, 9, 30))

    entry = JournalEntry.objects.get(event="opening_balance")
    assert (entry.document_on, entry.posting_on) == (date(2026, 9, 30), date(2026, 11, 1))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"reference": " "}, "reference"),
        ({"reference": "x" * 65}, "reference"),
        ({"amount": Decimal(0)}, "amount"),
        ({"amount": Decimal("0.001")}, "amount"),
        ({"amount": Decimal("NaN")}, "amount"),
        ({"amount": Decimal("1E16")}, "amount"),
        ({"dated_on": TODAY + DAY}, "dated_on"),
        ({"due_on": None}, "due_on"),
        ({"amount": Decimal(-1), "due_on": TODAY}, "due_on"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    organization: Organization, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(OpeningBalanceInvalidError) as refusal:
        take_over(organization, **fields)

    assert refusal.value.field == field
    assert not OpeningBalance.objects.exists()
    assert not JournalEntry.objects.exists()


def test_an_unknown_currency_is_refused(organization: Organization) -> None:
    with pytest.raises(CurrencyUnknownError):
        take_over(organization, currency="EUO")


def test_the_database_refuses_what_is_above_it_and_any_change(organization: Organization) -> None:
    balance = take_over(organization)
    payment = pay(amount="9.00")
    allocate_payment(payment_id=payment.pk, opening_balance_id=balance.pk, actor=DORA, at=AT)

    def overdraw() -> None:
        PaymentAllocation.objects.create(
            payment=payment, opening_balance=balance, amount=1, allocated_by="x", allocated_at=AT
        )
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(DatabaseError, match="more than the document"), transaction.atomic():
        overdraw()
    with pytest.raises(DatabaseError), transaction.atomic():
        OpeningBalance.objects.update(amount=1)
