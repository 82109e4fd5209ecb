"""Opening balances over REST: recorded, listed by status, and settled by payments."""

import json

import pytest
from django.http import HttpResponse
from rest_framework.test import APIClient

from billing.models import OpeningBalance
from tests.support.billing.office import Office
from tests.support.billing.payments import ACCOUNT
from tests.support.builders import AT
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/opening-balances/"


@pytest.fixture
def client(office: Office) -> APIClient:
    return api_client(office.cast.dora)


def test_an_opening_balance_is_recorded_and_settled(client: APIClient, office: Office) -> None:
    acme = str(office.cast.acme.pk)
    body = {
        "organization": acme,
        "reference": "OLD-7",
        "amount": "5.00",
        "currency": "EUR",
        "dated_on": f"{AT:%Y-%m-%d}",
        "due_on": "2026-10-01",
    }
    made = client.post(PATH, body, format="json", headers={"Idempotency-Key": "1"})
    assert made.status_code == 201
    assert made.json()["open_amount"] == {"amount": "5.00", "currency": "EUR"}
    assert problem(client.post(PATH, body, format="json", headers={"Idempotency-Key": "2"})) == (
        409,
        "opening_balance_exists",
    )
    payment = client.post(
        "/api/v1/payments/",
        {
            "bank_account": ACCOUNT,
            "bank_reference": "B1",
            "amount": "2.00",
            "currency": "EUR",
            "booked_on": f"{AT:%Y-%m-%d}",
        },
        format="json",
        headers={"Idempotency-Key": "3"},
    ).json()

    def allocate(key: str, **item: str) -> HttpResponse:
        path = f"/api/v1/payments/{payment['id']}/allocate/"
        return client.post(path, item, format="json", headers={"Idempotency-Key": key})

    both = {"opening_balance": made.json()["id"], "document": made.json()["id"]}
    assert problem(allocate("4", **both)) == (422, "invalid_input")
    done = json.loads(allocate("5", opening_balance=made.json()["id"]).content)

    assert done["allocations"][0]["opening_balance"] == made.json()["id"]
    (row,) = client.get(PATH, {"payment_status": "overdue"}).json()["results"]
    assert (row["reference"], row["open_amount"]["amount"]) == ("OLD-7", "3.00")
    assert OpeningBalance.objects.get().organization_id == office.cast.acme.pk
