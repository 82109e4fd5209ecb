"""Ageing and statement over REST: what is open by age, and how it came about."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from rest_framework.test import APIClient

from billing.models import DueDate, Invoice
from billing.services.finalizing import finalize_invoice
from billing.services.ledger.payments import record_payment
from billing.services.ledger.settling import allocate_payment
from tests.billing.services.ledger.test_journal import issued_on
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import Office
from tests.support.billing.payments import bank_row
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


@pytest.fixture
def client(office: Office) -> APIClient:
    return api_client(office.cast.alice)


def euros(amount: str) -> dict[str, str]:
    return {"amount": amount, "currency": "EUR"}


def aged(client: APIClient, **query: Any) -> dict[str, Any]:  # noqa: ANN401 - Any filter.
    """Return the columns of the one row that are not zero."""
    (row,) = client.get("/api/v1/reports/ageing/", query).json()["results"]
    return {name: value for name, value in row.items() if value != euros("0.00")}


def test_open_items_move_from_column_to_column(client: APIClient, final: Invoice) -> None:
    due_on, total = DueDate.objects.get(document=final).due_on, f"{final.total:.2f}"
    columns = {
        0: "not_due",
        1: "days_1_to_30",
        30: "days_1_to_30",
        31: "days_31_to_60",
        61: "days_61_to_90",
        90: "days_61_to_90",
        91: "days_over_90",
    }

    for days, column in columns.items():
        assert aged(client, on=due_on + timedelta(days)) == {
            "organization": "acme",
            "currency": "EUR",
            column: euros(total),
            "total": euros(total),
        }
    before = client.get("/api/v1/reports/ageing/", {"on": f"{issued_on(final) - timedelta(1)}"})
    assert before.json()["results"] == []


def test_free_money_stands_in_a_column_of_its_own(
    client: APIClient, office: Office, final: Invoice
) -> None:
    record_payment(
        row=bank_row(amount="1.00"), organization_id=office.cast.acme.pk, actor=DORA, at=AT
    )

    row = aged(client, on="2099-01-01")

    assert (row["days_over_90"], row["credit"]) == (euros(f"{final.total:.2f}"), euros("-1.00"))
    assert row["total"] == euros(f"{final.total - 1:.2f}")


def test_money_of_an_unknown_payer_counts_from_the_day_it_was_assigned(
    client: APIClient, final: Invoice
) -> None:
    payment = record_payment(row=bank_row(amount="3.00"), actor=DORA, at=AT)
    later = AT + timedelta(days=3)
    allocate_payment(
        payment_id=payment.pk, document_id=final.pk, amount=Decimal(1), actor=DORA, at=later
    )

    path = "/api/v1/reports/ageing/"
    assert client.get(path, {"on": f"{later.date() - timedelta(1)}"}).json()["results"] == []
    assert aged(client, on=later.date())["credit"] == euros("-2.00")


def test_a_statement_leads_from_opening_to_closing_balance(
    client: APIClient, office: Office, final: Invoice
) -> None:
    record_payment(row=bank_row(amount="1.00", remittance=final.reference), actor=DORA, at=AT)
    issued = issued_on(final)
    query = {
        "organization": str(office.cast.acme.pk),
        "from": f"{issued}",
        "to": f"{issued + timedelta(1)}",
    }

    body = client.get("/api/v1/reports/statement/", query).json()
    whole = client.get("/api/v1/reports/statement/csv/", {**query, "from": "2026-10-01"})

    closing = f"{final.total - 1:.2f}"
    assert body == {
        "currency": "EUR",
        "opening": euros("-1.00"),
        "lines": [
            {
                "dated_on": f"{issued}",
                "event": "invoice",
                "reference": final.reference,
                "amount": euros(f"{final.total:.2f}"),
                "balance": euros(closing),
            }
        ],
        "closing": euros(closing),
    }
    lines = whole.content.decode().splitlines()
    assert lines[1] == '"","opening","",,0.00,"EUR"'
    assert lines[2] == '"2026-11-02","payment","B1",-1.00,-1.00,"EUR"'
    assert lines[-1] == f'"","closing","",,{closing},"EUR"'
    assert len(lines) == 5


def test_a_statement_in_an_unknown_currency_is_refused(client: APIClient, office: Office) -> None:
    query = {"organization": str(office.cast.acme.pk), "from": "2026-10-01", "to": "2026-11-01"}

    answer = client.get("/api/v1/reports/statement/", {**query, "currency": "XXQ"})

    assert problem(answer) == (422, "billing_currency_unknown")


def test_invoices_are_listed_by_payment_status(client: APIClient, final: Invoice) -> None:
    def listed(status: str) -> list[tuple[str, str, str]]:
        rows = client.get("/api/v1/invoices/", {"payment_status": status}).json()["results"]
        return [(r["reference"], r["payment_status"], r["open_amount"]["amount"]) for r in rows]

    assert listed("open") == [(final.reference, "open", f"{final.total:.2f}")]
    assert listed("paid") == []
    record_payment(
        row=bank_row(amount=f"{final.total:.2f}", remittance=final.reference), actor=DORA, at=AT
    )
    assert listed("paid") == [(final.reference, "paid", "0.00")]
