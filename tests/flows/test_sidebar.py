"""The sidebar: on every page that has an entry, that entry and no other is marked."""

import re
from typing import Final

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from tests.support.cast import Cast, make_cast
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

ENTRY = re.compile(
    r'<a href="(?P<link>[^"]+)" class="(?P<classes>flex h-\[38px\][^"]*)">', re.DOTALL
)
BOARD = "/admin/quotas/quotalimit/board/"


@shared_rows
def cast() -> Cast:
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


GOLDEN: Final = {
    "dora": """
        Overview: Dashboard
        Money: Month close, Costs, Invoices, Payments, Disputes, Write-offs, Reminders, Journal
        Prices: Unpriced usage, Prices, Price drafts, Price books, Tier schedules, Minimum charges
        Customers: Organizations, Recipients
        To decide: Requests, Credit proposals
        More: All of billing
    """,
    "ann": """
        Overview: Dashboard
        Audit: Audit trail, Account changes, Memberships
        Billing: Month close, Costs, Invoices, Billing periods, Disputes, Payments,
          Opening balances, Write-offs, Document deliveries, Reminders, Reminder stops, Journal,
          Export schedules, Export runs, Charges, Unpriced usage, Waste, Prices,
          Price calendars, Price drafts, Repricings, Price books, Price book assignments,
          Customer classes, Class memberships, Tier schedules, Minimum charges, Tax rates,
          Tax treatments, Issuers, Recipients, Project routes
        Quotas: Quota board, Requests, Request policies, Limits, Grants, Loans, Loan policies,
          Suspensions, Live use, Refusals, Preemption, Protected windows, Automatic preemption,
          Isolation, Device sharing, Enforcement
        Metering: Calendar, Exceptions, Device events, Credit proposals, Waste findings,
          Cluster health, Windows, Usage records, Corrections, Rechecks, Allocations, Capacity,
          Device usage, Catalogue
        Tenants: Organizations, Projects, Clusters, Namespace bindings, Service accounts,
          Users, Notification endpoints, Deliveries, Muted mails, Archived months
    """,
    "frank": """
        Overview: Dashboard
        Clusters: Clusters, Namespace bindings, Exceptions, Calendar, Cluster health
        Metering: Device events, Credit proposals, Waste findings, Windows, Usage records,
          Corrections, Rechecks, Allocations, Capacity, Device usage, Catalogue
        Quotas: Quota board, Requests, Request policies, Limits, Grants, Loans, Loan policies,
          Suspensions, Live use, Refusals, Preemption, Protected windows, Automatic preemption,
          Isolation, Device sharing, Enforcement
        Tenants: Organizations, Projects, Memberships, Service accounts, API tokens, Users,
          Account changes, Notification endpoints, Deliveries, Muted mails, Audit trail,
          Archived months
        Billing: Month close, Costs, Invoices, Billing periods, Disputes, Payments,
          Opening balances, Write-offs, Document deliveries, Reminders, Reminder stops, Journal,
          Export schedules, Export runs, Charges, Unpriced usage, Waste, Prices,
          Price calendars, Price drafts, Repricings, Price books, Price book assignments,
          Customer classes, Class memberships, Tier schedules, Minimum charges, Tax rates,
          Tax treatments, Issuers, Recipients, Project routes
    """,
}
"""What each role's sidebar shows, in its order."""


def shown_to(user: User) -> str:
    """Return the sidebar of a person, a line for each group."""
    request = RequestFactory().get("/admin/")
    request.user = User.objects.get(pk=user.pk)
    groups = admin.site.get_sidebar_list(request)  # type: ignore[attr-defined] # unfold's.
    lines = [
        f"{group['title']}: "
        + ", ".join(str(one["title"]) for one in group["items"] if one["has_permission"])
        for group in groups
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_each_role_sees_its_work_first(cast: Cast, name: str) -> None:
    golden = re.sub(r"\n {10}", " ", GOLDEN[name])

    assert shown_to(getattr(cast, name)).split("\n") == [
        line.strip() for line in golden.strip().split("\n")
    ]


def test_finance_has_twenty_entries_and_reaches_the_rest_by_the_last(cast: Cast) -> None:
    dora = Client()
    dora.force_login(cast.dora)

    page = dora.get("/admin/billing/").content.decode()

    assert len(ENTRY.findall(page)) == 20
    assert "/admin/billing/projectroute/" in page
    assert [link for link, classes in ENTRY.findall(page) if "active" in classes.split()] == [
        "/admin/billing/"
    ]
