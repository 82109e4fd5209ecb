"""What is final stays: the database refuses even a superuser, in every way to change a row."""

from collections.abc import Iterator

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.identifiers import new_id
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    make_book,
    make_price,
    month_of_use,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import (
    AT,
    MONTH_START,
    make_cluster,
    make_organization,
    make_project,
)


def _added_charge(posting: str) -> str:
    """Return SQL that adds a copy of a charge for somebody else, with this period."""
    return f"""
INSERT INTO billing_charge
  (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
   tier, price_id, unit_price, currency, unit_seconds, period_id, created_at)
SELECT window_id, window_start, cluster_id, organization_id, project_id, 'x', size, price_group,
       tier, price_id, unit_price, currency, 1, {posting}, created_at
  FROM billing_charge LIMIT 1
"""  # noqa: S608 - Put together from constants of this file.


# Each would change history; the first word after the table's name is the column it goes for.
CHANGES = {
    "invoice total": "UPDATE billing_invoice SET total = 0",
    "invoice document": "UPDATE billing_invoice SET document = '{}'",
    "invoice back to draft": "UPDATE billing_invoice SET state = 'draft', number = NULL",
    "invoice deleted": "DELETE FROM billing_invoice",
    "invoices truncated": "TRUNCATE billing_invoice CASCADE",
    "line amount": "UPDATE billing_invoiceline SET amount = 0",
    "line deleted": "DELETE FROM billing_invoiceline",
    "lines truncated": "TRUNCATE billing_invoiceline CASCADE",
    "line added": (
        "INSERT INTO billing_invoiceline (id, invoice_id, position, project_id, size, price_group,"
        " description, unit_seconds, unit_price, amount) SELECT gen_random_uuid(), invoice_id, 99,"
        " project_id, size, price_group, 'x', 1, 1, 1 FROM billing_invoiceline LIMIT 1"
    ),
    "charge quantity": "UPDATE billing_charge SET unit_seconds = 1",
    "charge price": "UPDATE billing_charge SET unit_price = 0",
    "charge moved": "UPDATE billing_charge SET period_id = period_id",
    "charge deleted": "DELETE FROM billing_charge",
    "charges truncated": "TRUNCATE billing_charge",
    "period reopened": "UPDATE billing_billingperiod SET state = 'open' WHERE state = 'closed'",
    "period moved": "UPDATE billing_billingperiod SET hours = '[2026-01-01,2026-02-01)'",
    "period deleted": "DELETE FROM billing_billingperiod",
    "periods truncated": "TRUNCATE billing_billingperiod CASCADE",
    "price edited": "UPDATE billing_price SET unit_price = 0",
    "price deleted": "DELETE FROM billing_price",
    "prices truncated": "TRUNCATE billing_price CASCADE",
    "assignment moved": "UPDATE billing_pricebookassignment SET valid = '[2026-11-01,)'",
    "assignment deleted": "DELETE FROM billing_pricebookassignment",
    "window accrued anew": "UPDATE billing_accruedwindow SET charged_unit_seconds = 0",
    "window forgotten": "DELETE FROM billing_accruedwindow",
    "windows truncated": "TRUNCATE billing_accruedwindow CASCADE",
    "usage accrued anew": (
        "UPDATE billing_accruedusage SET charged_unit_seconds = 0,"
        " unpriced_unit_seconds = used_unit_seconds"
    ),
    "accrued usage deleted": "DELETE FROM billing_accruedusage",
    "accrued usage truncated": "TRUNCATE billing_accruedusage",
    "charge added to a closed period": _added_charge("period_id"),
    "book in another currency": "UPDATE billing_pricebook SET currency = 'CHF'",
    "number given again": "UPDATE billing_invoiceseries SET next_number = next_number - 1",
    "number skipped": "UPDATE billing_invoiceseries SET next_number = next_number + 2",
    "number kept": "UPDATE billing_invoiceseries SET next_number = next_number",
    "series renamed": "UPDATE billing_invoiceseries SET code = 'X', next_number = next_number + 1",
    "series deleted": "DELETE FROM billing_invoiceseries",
    "series truncated": "TRUNCATE billing_invoiceseries CASCADE",
}
COUNTED = (
    "SELECT (SELECT md5(string_agg(i::text, '|' ORDER BY i.id)) FROM billing_invoice i),"
    " (SELECT md5(string_agg(l::text, '|' ORDER BY l.id)) FROM billing_invoiceline l),"
    " (SELECT md5(string_agg(c::text, '|' ORDER BY c.id)) FROM billing_charge c),"
    " (SELECT md5(string_agg(p::text, '|' ORDER BY p.id)) FROM billing_price p),"
    " (SELECT md5(string_agg(s::text, '|' ORDER BY s.code)) FROM billing_invoiceseries s),"
    " (SELECT md5(string_agg(b::text, '|' ORDER BY b.id)) FROM billing_pricebook b),"
    " (SELECT md5(string_agg(u::text, '|' ORDER BY u.id)) FROM billing_accruedusage u),"
    " (SELECT md5(string_agg(w::text, '|' ORDER BY w.window_id)) FROM billing_accruedwindow w)"
)


@pytest.fixture
def superuser(superuser_url: str) -> Iterator[psycopg.Connection]:
    """A superuser's connection to a database with one final invoice."""
    issue_invoice()
    with psycopg.connect(superuser_url, autocommit=True) as opened:
        yield opened


def issue_invoice() -> Invoice:
    ledger = month_of_use([("llm", 3600)])
    period = ledger.organization.billing_periods.get(label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def test_a_superuser_is_refused_every_change(superuser: psycopg.Connection) -> None:
    before = superuser.execute(COUNTED).fetchone()

    for change in CHANGES.values():
        for role in ("origin", "replica"):
            superuser.execute(f"SET session_replication_role = {role}")
            with pytest.raises(psycopg.errors.RestrictViolation):
                superuser.execute(change)

    assert superuser.execute(COUNTED).fetchone() == before


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize("change", ["line amount", "line added"])
def test_a_temporary_table_in_front_of_the_ledger_deceives_no_trigger(change: str) -> None:
    issue_invoice()

    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE billing_invoice (id uuid, state text)")
        with pytest.raises(DatabaseError, match="the invoice is final"), transaction.atomic():
            cursor.execute(CHANGES[change])
        cursor.execute("DROP TABLE pg_temp.billing_invoice")

    assert InvoiceLine.objects.count() == 1


@pytest.mark.usefixtures("committed_db")
def test_the_runtime_role_is_refused_every_change() -> None:
    issue_invoice()

    def state() -> object:
        with connection.cursor() as cursor:
            cursor.execute(COUNTED)
            return cursor.fetchone()

    before = state()

    for change in CHANGES.values():
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)

    assert state() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("column", "value", "refusal"),
    [
        ("window_start", "window_start + interval '1 hour'", "is not sealed, or differs"),
        ("cluster_id", "(SELECT id FROM tenants_cluster WHERE slug = 'y')", "is not sealed, or"),
        ("window_id", "window_id + 1000", "is not sealed, or differs"),
        ("organization_id", "(SELECT id FROM tenants_organization WHERE slug = 'y')", "is not of"),
        ("project_id", "(SELECT id FROM tenants_project WHERE slug = 'y')", "is not of the org"),
        ("period_id", "(SELECT id FROM billing_billingperiod WHERE label = 'y')", "is not of the"),
    ],
)
def test_a_charge_has_the_time_and_organization_of_what_it_belongs_to(
    column: str, value: str, refusal: str
) -> None:
    month_of_use([("llm", 3600)])
    other = make_project(make_organization("y"), "y")
    make_cluster("y")
    BillingPeriod.objects.create(
        organization=other.organization,
        label="y",
        hours=(MONTH_START, MONTH_START + HOUR),
        created_at=AT,
    )
    head, select, values = _added_charge("period_id").partition("SELECT")
    copied = head + select + values.replace(column, value, 1)

    with (
        pytest.raises(DatabaseError, match=refusal),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(copied)

    assert Charge.objects.count() == 1


@pytest.mark.django_db
def test_a_draft_and_its_lines_may_change() -> None:
    ledger = month_of_use([("llm", 3600)])
    period = ledger.organization.billing_periods.get(label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    assert draft.lines.update(description="x") == 1
    draft.delete()
    assert not InvoiceLine.objects.exists()


@pytest.mark.usefixtures("committed_db")
def test_a_gap_between_prices_is_refused_when_it_would_be_committed() -> None:
    book = make_book()
    make_price(book, end_at=MONTH_START + HOUR)

    with pytest.raises(IntegrityError, match="gap"):
        make_price(book, begin_at=MONTH_START + 2 * HOUR)

    assert book.prices.count() == 1
    make_price(book, begin_at=MONTH_START + HOUR)


@pytest.mark.django_db
def test_prices_that_overlap_are_refused() -> None:
    book = make_book()
    make_price(book)

    with pytest.raises(IntegrityError, match="prices_do_not_overlap"), transaction.atomic():
        make_price(book, begin_at=MONTH_START + HOUR)

    assert book.prices.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    ["state = 'final'", "number = 1", "state = 'final', number = 1, finalized_at = now()"],
)
def test_final_and_numbered_go_together(change: str) -> None:
    ledger = month_of_use([("llm", 3600)])
    period = ledger.organization.billing_periods.get(label="2026-10")
    draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    with (
        pytest.raises(IntegrityError, match="invoice_final_has_number_and_digest"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"UPDATE billing_invoice SET {change}")  # noqa: S608 - Constants above.

    assert Invoice.objects.get().state == "draft"


@pytest.mark.django_db
def test_a_charge_pins_a_price_that_there_is() -> None:
    month_of_use([("llm", 3600)])
    charge = Charge.objects.get()
    charge.pk, charge.owner, charge.price_id = None, "dave", new_id()

    with pytest.raises(IntegrityError, match="there is no price"), transaction.atomic():
        charge.save(force_insert=True)

    assert Charge.objects.count() == 1
