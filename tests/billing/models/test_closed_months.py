"""Months close once: as the runtime role, by SQL, no sooner than they are over and billed."""

from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection, transaction

from billing.models import AccountingMonth, BillingPeriod, Invoice
from billing.services.ledger.journal import close_accounting_month
from embedded.postgres import APP
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, Ledger, month_of_use
from tests.support.builders import AT, make_organization
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
CLOSE_ACCOUNTING = (
    "INSERT INTO billing_accountingmonth (id, label, closed_at, closed_by)"
    " VALUES (gen_random_uuid(), %s, now(), 'x')"
)
CLOSE = "UPDATE billing_billingperiod SET state = 'closed', closed_at = now() WHERE label = %s"


def as_runtime_role(statement: str, value: str) -> None:
    """Run a statement with what is deferred to the end of its transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() == (APP,)
        cursor.execute(statement, [value])
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600)])


@pytest.mark.parametrize(
    ("label", "refusal"),
    [
        ("2199-12", "the accounting month 2199-12 is not over"),
        (f"{datetime.now(tz=UTC):%Y-%m}", "is not over"),
        ("2026-09", "2026-09 is closed already: the last one is 2026-10"),
        ("2026-10", "2026-10 is closed already: the last one is 2026-10"),
        ("2026-13", "accounting_month_is_a_month"),
    ],
)
def test_no_accounting_month_closes_before_it_is_over(label: str, refusal: str) -> None:
    close_accounting_month(label="2026-10", actor=DORA, at=AT)

    with pytest.raises(DatabaseError, match=refusal):
        as_runtime_role(CLOSE_ACCOUNTING, label)

    assert AccountingMonth.objects.count() == 2


def test_a_month_with_charges_closes_with_a_final_document_only(ledger: Ledger) -> None:
    refusal = "2026-10 has charges and no final document"
    with pytest.raises(DatabaseError, match=refusal):
        as_runtime_role(CLOSE, "2026-10")
    draft(ledger.organization, "2026-10")
    with pytest.raises(DatabaseError, match=refusal):
        as_runtime_role(CLOSE, "2026-10")

    assert BillingPeriod.objects.get(label="2026-10").state == "open"


def test_finalizing_closes_the_month(ledger: Ledger) -> None:
    finalize(draft(ledger.organization, "2026-10"))

    as_runtime_role("SELECT %s", "")

    assert BillingPeriod.objects.get(label="2026-10").state == "closed"
    assert Invoice.objects.get().state == "final"


def test_a_month_without_charges_closes(ledger: Ledger) -> None:
    october = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    other = BillingPeriod.objects.create(
        organization=make_organization("unused"),
        label="2026-09",
        hours=october.hours,
        created_at=AT,
    )

    as_runtime_role(CLOSE, "2026-09")

    other.refresh_from_db()
    assert other.state == "closed"
