"""The way to a page stands above it: home, the app, the table and the page, each a link."""

import html
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

HOME = ("Home", "/admin/")
BILLING = ("Billing", "/admin/billing/")
METERING = ("Metering", "/admin/metering/")
QUOTAS = ("Quotas", "/admin/quotas/")
PAGES = {
    "billing/charge/waste/": (BILLING, ("Charges", "charge/"), "Waste"),
    "metering/meteringwindow/calendar/": (
        METERING,
        ("Windows", "meteringwindow/"),
        "Calendar",
    ),
    "metering/catalogueversion/edit/": (
        METERING,
        ("Catalogue", "catalogueversion/"),
        "Edit the catalogue",
    ),
    "metering/deviceusage/sharing/": (
        METERING,
        ("Device usage", "deviceusage/"),
        "Device sharing",
    ),
    "quotas/quotalimit/board/": (QUOTAS, ("Limits", "quotalimit/"), "Quota board"),
}


@shared_rows
def cast() -> Cast:
    made = make_cast()
    User.objects.update(is_staff=True)
    return made


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def way_to(page: str) -> list[tuple[str, str]]:
    """Return the words and the address of each part of the way above a page."""
    (way,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    # The count of a list's rows stands beside it, with a link that begins with a question mark.
    links = re.findall(r'<a href="(/[^"]*)"[^>]*>(.*?)</a>', way, re.DOTALL)
    return [(html.unescape(words).strip(), address) for address, words in links]


@pytest.mark.parametrize("path", sorted(PAGES))
def test_the_way_to_a_page_of_its_own_begins_at_home_and_every_part_opens(
    cast: Cast, path: str
) -> None:
    client = client_of(cast.frank)
    app, (table, below), title = PAGES[path]

    way = way_to(client.get(f"/admin/{path}").content.decode())

    assert way == [HOME, app, (table, f"{app[1]}{below}"), (title, f"/admin/{path}")]
    assert [client.get(address).status_code for _, address in way] == [200, 200, 200, 200]


@pytest.mark.parametrize("path", ["billing/charge/", "tenants/organization/"])
def test_the_way_to_a_table_is_made_alike(cast: Cast, path: str) -> None:
    client = client_of(cast.frank)

    way = way_to(client.get(f"/admin/{path}").content.decode())

    app, table, _ = path.split("/")
    assert way == [
        HOME,
        (app.capitalize(), f"/admin/{app}/"),
        (f"{table.capitalize()}s", f"/admin/{path}"),
    ]
    assert [client.get(address).status_code for _, address in way] == [200, 200, 200]


def test_the_way_to_a_row_names_it(cast: Cast) -> None:
    address = f"/admin/tenants/organization/{cast.acme.pk}/change/"

    way = way_to(client_of(cast.frank).get(address).content.decode())

    assert way == [
        HOME,
        ("Tenants", "/admin/tenants/"),
        ("Organizations", "/admin/tenants/organization/"),
        ("Acme", address),
    ]


def test_the_dashboard_leads_nowhere_else(cast: Cast) -> None:
    assert way_to(client_of(cast.frank).get("/admin/").content.decode()) == []
