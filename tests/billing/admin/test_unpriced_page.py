"""Use without a price is one row for each remedy, with a form that is filled in."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import PriceBook
from tests.support.billing.ledger import (
    HOUR,
    Use,
    accrue_everything,
    assign,
    make_ledger,
    sealed_window,
)
from tests.support.builders import MONTH_START, bind, make_organization, make_project
from tests.support.cast import make_cast

pytestmark = pytest.mark.django_db
LIST = "/admin/billing/accrualexception/"
GROUP = "B200/whole"


@pytest.fixture
def dora() -> Client:
    """Return finance's browser, after three hours without a price and one without a book."""
    people = make_cast()
    User.objects.update(is_staff=True)
    ledger = make_ledger("globex")
    second = make_organization("initech", name="Initech")
    payers = [make_project(second, "vision"), make_project(make_organization("hooli"), "search")]
    for project in payers:
        bind(ledger.cluster, project.organization.slug, project)
    assign(second, ledger.book)
    large = Use(ledger.llm, 7200, size="large", price_group=GROUP, units=2)
    sealed_window(ledger.cluster, [large], start_at=MONTH_START + HOUR)
    sealed_window(
        ledger.cluster,
        [large, Use(payers[0], 3600, size="large", price_group=GROUP), Use(payers[1], 60)],
        start_at=MONTH_START + 2 * HOUR,
    )
    accrue_everything()
    return signed_in(people.dora)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def rows_of(client: Client) -> tuple[list[str], list[str]]:
    """Return the words of each row of the first table, and the links in it."""
    page = client.get(LIST).content.decode()
    part = page[page.index("What lacks a price") : page.index("One by one")]
    rows = re.findall(r"<tr.*?</tr>", part, re.DOTALL)[1:]
    texts = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row)).strip() for row in rows]
    return texts, [unescape(link) for link in re.findall(r'href="([^"]*)"', part)]


def test_a_missing_price_is_one_row_with_what_it_holds_and_of_whom(dora: Client) -> None:
    texts, _ = rows_of(dora)

    price, book = texts
    assert price.startswith(f"No price large {GROUP}, price book globex Globex, Initech 2 5.0000 ")
    assert price.endswith(" 2026-10-01 01:00 Draft a price")
    assert book == "No price book Hooli 1 0.0167 2026-10-01 02:00 Assign a price book"


def test_each_link_opens_a_form_that_is_filled_in(dora: Client) -> None:
    _, (draft, assignment) = rows_of(dora)

    drafted = dora.get(draft).context["adminform"].form.initial
    assigned = dora.get(assignment).context["adminform"].form.initial

    assert draft.startswith("/admin/billing/pricedraft/add/?")
    assert drafted["lines"] == f"large {GROUP} "
    assert drafted["valid_from"] == MONTH_START + HOUR
    assert drafted["price_book"] == str(PriceBook.objects.get().pk)
    assert assignment.startswith("/admin/billing/pricebookassignment/add/?")
    assert assigned["valid_from"] == MONTH_START + 2 * HOUR
    assert "2026-10-01" in dora.get(draft).content.decode()
    assert dora.get(draft.replace("2026-10-01T", "when")).status_code == 200


@pytest.mark.usefixtures("dora")
def test_who_may_not_draft_reads_who_may() -> None:
    texts, links = rows_of(signed_in(User.objects.get(username="ann")))

    assert texts[0].endswith("Draft a price: a finance admin")
    assert links == []


def test_a_chosen_list_leads_back_to_all_and_statements_do_not_grow(dora: Client) -> None:
    dora.get(LIST)
    with CaptureQueriesContext(connection) as queries:
        dora.get(LIST)
    page = dora.get(f"{LIST}?resolved_at__isempty=1").content.decode()

    assert len(queries) <= 20
    assert "What lacks a price" not in page
    assert "All that lacks a price, by remedy" in page
