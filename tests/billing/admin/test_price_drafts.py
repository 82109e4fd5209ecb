"""A draft of prices is proposed and published in the admin, and withdrawn where it was wrong."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.utils import timezone

from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import Price, PriceDraft
from billing.services.pricing.price_drafts import draft_prices
from tests.support.billing.ledger import ERIC
from tests.support.billing.office import Office
from tests.support.builders import AT, make_cluster

LIST = "/admin/billing/pricedraft/"


@pytest.fixture
def client(office: Office) -> Client:
    User.objects.update(is_staff=True)
    made = Client()
    made.force_login(office.cast.dora)
    return made


def test_prices_are_proposed_by_lines_and_shown_with_their_effects(
    office: Office, client: Client
) -> None:
    body = {
        "price_book": str(office.book.pk),
        "valid_from_0": "2100-01-01",
        "valid_from_1": "00:00:00",
        "lines": "small * 3.00\nlarge H100/* 8\n",
        "reason": "A new year.",
    }

    made = client.post(f"{LIST}add/", body)
    refused = client.post(f"{LIST}add/", {**body, "lines": "small 3.00"})

    assert made.status_code == 302
    row = PriceDraft.objects.get()
    page = client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "large H100/* 8" in page
    assert "Not size, group and price" in refused.content.decode()


def test_a_line_names_a_cluster_by_its_slug(office: Office, client: Client) -> None:
    hopper = make_cluster("hopper-2")
    body = {
        "price_book": str(office.book.pk),
        "valid_from_0": "2100-01-01",
        "valid_from_1": "00:00:00",
        "lines": "small * 3.00 cluster=hopper-2\nsmall * 2.50",
        "reason": "A new year.",
    }

    refused = client.post(f"{LIST}add/", {**body, "lines": "small * 3.00 cluster=nowhere"})
    client.post(f"{LIST}add/", body)

    assert "Not a cluster" in refused.content.decode()
    row = PriceDraft.objects.get()
    assert [price.get("cluster") for price in row.prices] == [str(hopper.pk), None]
    page = client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "small * 3 cluster=hopper-2" in page


def test_a_draft_is_published_and_its_price_withdrawn(office: Office, client: Client) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) + timedelta(days=400)
    row = draft_prices(
        price_book=office.book,
        prices=[DraftedPrice("small", "*", Decimal(2000))],
        valid_from=hour,
        reason="New.",
        actor=ERIC,
        at=AT,
    )

    page = f"{LIST}{row.pk}/change/"
    buttons = '<button type="submit" name="action" value="{}"'
    shown = " ".join(client.get(page).content.decode().split())
    assert all(buttons.format(name) in shown for name in ("publish_drafts", "reject_drafts"))

    client.post(LIST, {"action": "publish_drafts", "_selected_action": [str(row.pk)], "note": "Y"})

    row.refresh_from_db()
    assert 'name="action"' not in client.get(page).content.decode()
    price = Price.objects.get(valid__startswith=hour)
    assert (row.state, price.unit_price) == ("published", Decimal(2000))
    client.post(
        "/admin/billing/price/",
        {"action": "withdraw_prices", "_selected_action": [str(price.pk)], "note": "Typed wrong."},
    )
    price.refresh_from_db()
    assert price.superseded_at is not None


def test_whoever_proposed_prices_is_shown_who_publishes_them(
    office: Office, client: Client
) -> None:
    client.post(
        f"{LIST}add/",
        {
            "price_book": str(office.book.pk),
            "valid_from_0": "2100-01-01",
            "valid_from_1": "00:00:00",
            "lines": "small * 3.00",
            "reason": "A new year.",
        },
    )
    page = f"{LIST}{PriceDraft.objects.get().pk}/change/"

    shown = client.get(page).text
    with override_settings(FOUR_EYES=False):
        alone = client.get(page).text

    assert "It is approved by another person: a finance admin" in shown
    assert ('value="publish_drafts"' in shown, 'value="reject_drafts"' in shown) == (False, True)
    assert ('value="publish_drafts"' in alone, "another person" in alone) == (True, False)
