"""Tax rates and treatments over REST and in the admin, and the taxes of an invoice there."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from billing.models import TaxRate, TaxTreatment
from billing.services.invoicing import draft_invoice
from tests.support.billing.ledger import DORA
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.tenants.clients import api_client, problem

RATES = "/api/v1/tax-rates/"
TREATMENTS = "/api/v1/tax-treatments/"
RATE = {"country": "DE", "category": "S", "rate": "19", "valid_from": "2026-01-01"}


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "k1") -> Any:  # noqa: ANN401
    return client.post(path, body, headers={"Idempotency-Key": key})


def test_finance_sets_rate_and_treatment_and_the_invoice_shows_them(office: Office) -> None:
    dora = api_client(office.cast.dora)
    treatment = {
        "organization": str(office.cast.acme.pk),
        "country": "DE",
        "category": "S",
        "valid_from": "2026-01-01",
    }

    rate = post(dora, RATES, RATE)
    treated = post(dora, TREATMENTS, treatment, key="k2")

    assert (rate.status_code, rate.json()["rate"]) == (201, "19.0000")
    assert treated.status_code == 201
    invoice = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    shown = dora.get(f"/api/v1/invoices/{invoice.pk}/").json()
    assert [shown[name]["amount"] for name in ("total", "tax_total", "payable")] == [
        "3.00",
        "0.57",
        "3.57",
    ]
    [tax] = shown["taxes"]
    assert (tax["category"], tax["amount"]) == ("S", {"amount": "0.57", "currency": "EUR"})
    withdrawn = post(dora, f"{RATES}{rate.json()['id']}/withdraw/", {"reason": "x"}, key="k3")
    assert withdrawn.json()["withdrawn_at"] is not None


@pytest.mark.parametrize(
    ("change", "code"),
    [({"rate": "0"}, "tax_invalid"), ({"category": "XX"}, "tax_invalid")],
)
def test_a_wrong_rate_is_refused_with_its_field(
    office: Office, change: dict[str, str], code: str
) -> None:
    answer = post(api_client(office.cast.dora), RATES, RATE | change)

    assert problem(answer) == (422, code)
    assert next(iter(change)) in answer.content.decode()
    assert not TaxRate.objects.exists()


def test_rate_and_treatment_are_set_and_withdrawn_in_the_admin(office: Office) -> None:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(office.cast.dora)
    rates, treatments = "/admin/billing/taxrate/", "/admin/billing/taxtreatment/"

    client.post(f"{rates}add/", RATE)
    client.post(
        f"{treatments}add/",
        {
            "organization": str(office.cast.acme.pk),
            "country": "DE",
            "category": "S",
            "valid_from": "2026-01-01",
        },
    )
    invoice = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    page = client.get(f"/admin/billing/invoice/{invoice.pk}/change/").content.decode()
    assert "S 19 % DE" in page
    assert "3.57" in page
    for path, row, action in (
        (rates, TaxRate.objects.get(), "withdraw_rates"),
        (treatments, TaxTreatment.objects.get(), "withdraw_treatments"),
    ):
        body = {"action": action, "_selected_action": [str(row.pk)], "note": "Wrong."}
        client.post(path, body)
        row.refresh_from_db()
        assert row.withdrawn_at is not None
