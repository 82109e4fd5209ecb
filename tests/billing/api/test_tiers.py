"""Tier schedules over REST and in the admin."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from billing.models import TierSchedule
from billing.services.invoicing import draft_invoice
from tests.support.billing.ledger import DORA
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.tenants.clients import api_client, problem

SCHEDULES = "/api/v1/tier-schedules/"
BODY = {
    "name": "Bulk",
    "basis": "quantity",
    "kind": "graduated",
    "scope": "organization",
    "span": "fiscal_year",
    "year_begins": 4,
    "sizes": ["small"],
    "price_groups": ["H100/*"],
    "first_month": "2026-10",
    "last_month": "2027-03",
    "bands": [{"above": "0", "discount_percent": "0"}, {"above": "1", "discount_percent": "50"}],
}


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "k1") -> Any:  # noqa: ANN401
    return client.post(path, body, headers={"Idempotency-Key": key})


def test_finance_publishes_a_schedule_and_the_invoice_has_its_lines(office: Office) -> None:
    dora = api_client(office.cast.dora)

    made = post(dora, SCHEDULES, BODY | {"price_book": str(office.book.pk)})

    assert made.status_code == 201
    shown = made.json()
    assert (shown["bands"][1], shown["sizes"]) == (
        {"above": "1.0000", "discount_percent": "50.0000"},
        ["small"],
    )
    invoice = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    lines = dora.get(f"/api/v1/invoices/{invoice.pk}/").json()["lines"]
    assert [(line["kind"], line["amount"]["amount"], line["tier_band"]) for line in lines] == [
        ("usage", "2.00", 0),
        ("tier", "-0.33", 2),
        ("usage", "1.00", 0),
        ("tier", "-0.17", 2),
    ]
    assert (lines[1]["tier_schedule"], lines[1]["tier_span"]) == (shown["id"], "2026-04")
    assert [row["id"] for row in dora.get(SCHEDULES).json()["results"]] == [shown["id"]]


@pytest.mark.parametrize(
    "bands",
    [
        [{"above": "10", "discount_percent": "5"}],
        [{"above": "0", "discount_percent": "5"}, {"above": "0", "discount_percent": "6"}],
        [{"above": "0", "discount_percent": "101"}],
    ],
)
def test_bands_with_a_hole_or_too_much_discount_are_refused(
    office: Office, bands: list[dict[str, str]]
) -> None:
    body = BODY | {"price_book": str(office.book.pk), "bands": bands}

    answer = post(api_client(office.cast.dora), SCHEDULES, body)

    assert problem(answer) == (422, "tier_schedule_invalid")
    assert answer.json()["remedy"].startswith("Give bands whose bounds begin at 0")
    assert not TierSchedule.objects.exists()


def test_a_schedule_is_published_and_withdrawn_in_the_admin(office: Office) -> None:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(office.cast.dora)
    path = "/admin/billing/tierschedule/"
    body = {
        **{name: BODY[name] for name in ("name", "basis", "kind", "scope", "span")},
        "price_book": str(office.book.pk),
        "year_begins": "1",
        "first_month": "2190-01",
        "last_month": "2190-12",
        "lines": "0 0\n100 12.5\n",
    }

    refused = client.post(f"{path}add/", body | {"lines": "0 0\n100\n"})
    client.post(f"{path}add/", body)

    assert "Not a bound and a discount" in refused.content.decode()
    row = TierSchedule.objects.get()
    assert row.bands[1] == {"above": "100", "discount_percent": "12.5"}
    assert "100: 12.5 %" in client.get(f"{path}{row.pk}/change/").content.decode()
    client.post(
        path, {"action": "withdraw_schedules", "_selected_action": [str(row.pk)], "note": "Wrong."}
    )
    row.refresh_from_db()
    assert row.withdrawn_at is not None
