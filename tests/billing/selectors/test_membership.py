"""A charge belongs to the line with its key, without a link that would have to be written."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine
from billing.selectors.documents import invoices
from billing.selectors.documents.membership import (
    billed_charges,
    charges_of_invoice,
    charges_of_line,
    unbilled_charges,
    with_line,
)
from billing.services import draft_checks
from tenants.domain.identifiers import new_id
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    month_of_use,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.builders import MONTH_END, MONTH_START

pytestmark = pytest.mark.django_db
NEXT_MONTH_OVER = MONTH_END + 31 * 24 * HOUR


def two_months() -> tuple[Ledger, Invoice, Invoice]:
    """Return an organization with a final October, and November with late use of October."""
    ledger = make_ledger(bound_hours=3)
    window = sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.vision, 60)])
    seal_rest_of_month(ledger.cluster, hours=3)
    accrue_everything()
    october = finalize(draft(ledger.organization, "2026-10"))
    sealed_window(ledger.cluster, [Use(ledger.llm, 1800)], start_at=MONTH_END)
    accrue_everything()
    accrue_late(correct(window, ledger.llm, 900))
    november = draft(ledger.organization, "2026-11", at=NEXT_MONTH_OVER)
    return ledger, october, finalize(november, at=NEXT_MONTH_OVER)


def test_a_charge_is_of_the_line_of_its_own_month_in_the_month_it_was_posted_to() -> None:
    _, october, november = two_months()

    owned = with_line(Charge.objects.all()).order_by("id").values_list("unit_seconds", "line_id")

    lines = {(line.invoice_id, line.unit_seconds): line.pk for line in InvoiceLine.objects.all()}
    assert dict(owned) == {
        3600: lines[october.pk, 3600],
        60: lines[october.pk, 60],
        1800: lines[november.pk, 1800],
        900: lines[november.pk, 900],
    }
    every = Charge.objects.all()
    assert {
        (line.unit_seconds, *charges_of_line(every, line.pk).values_list("unit_seconds", flat=True))
        for line in InvoiceLine.objects.all()
    } == {(3600, 3600), (60, 60), (1800, 1800), (900, 900)}
    assert charges_of_invoice(every, november.pk).count() == 2
    assert billed_charges(every).count() == 4
    assert not unbilled_charges(every).exists()


def test_a_draft_has_no_charges_and_what_does_not_exist_has_none() -> None:
    ledger = month_of_use([("llm", 3600)])
    made = draft(ledger.organization, "2026-10")
    every = Charge.objects.all()

    assert not charges_of_invoice(every, made.pk).exists()
    assert not charges_of_line(every, made.lines.get().pk).exists()
    assert not charges_of_line(every, new_id()).exists()
    assert with_line(every).get().line_id is None
    assert unbilled_charges(every).count() == 1


def test_no_charge_is_written_when_its_month_is_closed() -> None:
    ledger = month_of_use([("llm", 3600)])
    made = draft(ledger.organization, "2026-10")

    with CaptureQueriesContext(connection) as done:
        finalize(made)

    written = [query["sql"] for query in done if 'billing_charge" SET' in query["sql"]]
    assert written == []
    assert not any("UPDATE billing_charge" in query["sql"] for query in done)


@pytest.mark.parametrize("statement", ["drafting", "finalizing"])
def test_a_statement_of_a_month_reads_no_other_organizations_charges(statement: str) -> None:
    for slug in ("acme", "umbrella"):
        month_of_use([("llm", 3600)], slug)
    period = BillingPeriod.objects.get(organization__slug="acme", label="2026-10")
    made = draft(period.organization, "2026-10")
    sql = {"drafting": invoices._SUMS, "finalizing": draft_checks._DIFFERENCES}[statement]  # noqa: SLF001 - Their plans are looked at.
    given: dict[str, Any] = {
        "invoices": [made.pk],
        "run": 1,
        "projects": None,
        "period": period.pk,
        "periods": [period.pk],
        "begin_at": period.hours.lower,
        "organizations": [period.organization_id],
        "replaced": None,
    }

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {sql}", given)
        plan = [row[0].strip() for row in cursor.fetchall()]

    scans = [number for number, line in enumerate(plan) if " on billing_charge" in line]
    assert scans
    for number in scans:
        part = " ".join(plan[number : number + 3])
        assert "period_id = " in part, part
        assert "Rows Removed" not in part, part
    assert MONTH_START in period.hours


def test_a_line_is_there_once_for_its_key() -> None:
    ledger = month_of_use([("llm", 3600)])
    line = draft(ledger.organization, "2026-10").lines.get()
    line.pk, line.position = new_id(), 2

    with pytest.raises(Exception, match="invoice_line_key"):
        line.save(force_insert=True)
