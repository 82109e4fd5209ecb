"""Repricings over REST and in the admin: asked for by one person, approved by another."""

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from billing.models import Charge, Price, Repricing
from billing.services.pricing.prices import set_price
from billing.services.repricing import reprice_period
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import Office
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

REPRICINGS = "/api/v1/repricings/"


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "k1") -> Any:  # noqa: ANN401
    return client.post(path, body, headers={"Idempotency-Key": key})


@shared_rows
def wrong(office: Office) -> Price:
    """The office's price of small units, replaced by twice as much."""
    price = Price.objects.get()
    set_price(
        price_book=office.book,
        size="small",
        unit_price=2 * price.unit_price,
        valid_from=MONTH_START,
        replaces=price.pk,
        reason="Typed wrong.",
        actor=DORA,
        at=AT,
    )
    return price


def approval(repricing: object) -> str:
    return f"{REPRICINGS}{repricing}/approve/"


def asked_by_eric(office: Office) -> Repricing:
    return reprice_period(
        period_id=office.period.pk, reason="Wrong.", is_four_eyes=True, actor=ERIC, at=AT
    )


@pytest.mark.usefixtures("wrong")
def test_finance_previews_and_another_person_approves(office: Office) -> None:
    body = {"period": str(office.period.pk), "reason": "Typed wrong."}

    asked = post(api_client(office.cast.dora), REPRICINGS, body)

    assert asked.status_code == 201
    shown = asked.json()
    before, after = (Decimal(shown[name]["amount"]) for name in ("before", "after"))
    assert (shown["state"], after) == ("proposed", 2 * before)
    own = post(api_client(office.cast.dora), approval(shown["id"]), {}, key="k2")
    assert problem(own) == (403, "repricing_needs_four_eyes")
    other = asked_by_eric(office)
    posted = post(api_client(office.cast.dora), approval(other.pk), {"note": "Checked."}, key="k3")
    assert (posted.status_code, posted.json()["state"]) == (200, "posted")
    charges = api_client(office.cast.ann).get(f"/api/v1/charges/?repricing={other.pk}").json()
    assert len(charges["results"]) == 4
    assert Charge.objects.filter(repricing_id=other.pk).count() == 4


def test_a_month_without_anything_wrong_is_refused_with_a_remedy(office: Office) -> None:
    body = {"period": str(office.period.pk), "reason": "Perhaps."}

    answer = post(api_client(office.cast.dora), REPRICINGS, body)

    assert problem(answer) == (409, "nothing_to_reprice")
    assert not Repricing.objects.exists()


@pytest.mark.usefixtures("wrong")
def test_months_are_repriced_and_approved_in_the_admin(office: Office) -> None:
    client = Client()
    User.objects.update(is_staff=True)
    client.force_login(office.cast.dora)

    client.post(
        "/admin/billing/billingperiod/",
        {
            "action": "reprice_periods",
            "_selected_action": [str(office.period.pk)],
            "note": "Wrong.",
        },
    )

    own, row = Repricing.objects.get(), asked_by_eric(office)
    page = client.get(f"/admin/billing/repricing/{row.pk}/change/").content.decode()
    assert "unit-hours of small" in page
    client.post(
        "/admin/billing/repricing/",
        {
            "action": "approve_repricings",
            "_selected_action": [str(own.pk), str(row.pk)],
            "note": "Checked.",
        },
    )
    assert sorted(Repricing.objects.values_list("state", "decision_note")) == [
        ("posted", "Checked."),
        ("proposed", ""),
    ]
