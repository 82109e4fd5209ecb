"""The sidebar: on every page that has an entry, that entry and no other is marked."""

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from tests.support.cast import Cast, make_cast
from tests.support.quotas.builders import make_limit

ENTRY = re.compile(
    r'<a href="(?P<link>[^"]+)" class="(?P<classes>flex h-\[38px\][^"]*)">', re.DOTALL
)
BOARD = "/admin/quotas/quotalimit/board/"


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - It is the transaction.
    made = make_cast()
    User.objects.update(is_staff=True)
    return made


@pytest.fixture
def client(cast: Cast) -> Client:
    made = Client()
    made.force_login(cast.frank)
    return made


def entries() -> list[str]:
    """Return the links of all entries."""
    groups = settings.UNFOLD["SIDEBAR"]["navigation"]
    return [str(entry["link"]) for group in groups for entry in group["items"]]


def marked(client: Client, page: str) -> list[str]:
    """Return the links that are marked on a page, in the sidebar's order."""
    answer = client.get(page)
    assert answer.status_code == 200, page
    found = ENTRY.findall(answer.content.decode())
    assert len(found) > 20
    return [link for link, classes in found if "active" in classes.split()]


def test_every_page_of_the_sidebar_marks_its_own_entry_and_no_other(client: Client) -> None:
    links = entries()

    assert len(links) == len(set(links)) > 40
    assert {link: marked(client, link) for link in links} == {link: [link] for link in links}


def test_a_page_below_a_table_marks_the_table(client: Client, cast: Cast) -> None:
    limits = "/admin/quotas/quotalimit/"
    limit = make_limit(cast.acme)

    assert marked(client, f"{limits}{limit.pk}/change/") == [limits]
    assert marked(client, f"{limits}add/") == [limits]
    assert marked(client, f"{limits}?size__exact=large") == [limits]
    assert marked(client, f"{BOARD}?organization=acme") == [BOARD]
    assert marked(client, "/admin/?month=2026-10") == ["/admin/"]


def test_a_page_without_an_entry_marks_none(client: Client) -> None:
    assert marked(client, "/admin/billing/invoiceseries/") == []
