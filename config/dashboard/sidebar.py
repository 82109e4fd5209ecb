"""The sidebar of the admin by role: what a person does comes first, the rest is one click away."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from tenants.admin.base import holds

Group = dict[str, Any]
WRITES_MONEY: Final = "billing:period:write"
WRITES_CLUSTERS: Final = "tenants:cluster:write"

FINANCE: Final[Mapping[str, Sequence[str]]] = {
    "Overview": ("Dashboard",),
    gettext_noop("Money"): (
        "Month close",
        "Costs",
        "Invoices",
        "Payments",
        "Disputes",
        "Write-offs",
        "Reminders",
        "Journal",
    ),
    "Prices": (
        "Unpriced usage",
        "Prices",
        "Price drafts",
        "Price books",
        "Tier schedules",
        "Minimum charges",
    ),
    gettext_noop("Customers"): ("Organizations", "Recipients"),
    gettext_noop("To decide"): ("Requests", "Credit proposals"),
}
"""What finance works with, by the titles of the entries."""
MORE: Final = gettext_noop("All of billing")
"""The last entry of finance: the list of all tables of billing."""
PLATFORM: Final[Mapping[str, Sequence[str]]] = {
    "Overview": ("Dashboard",),
    "Clusters": ("Clusters", "Namespace bindings", "Exceptions", "Calendar", "Cluster health"),
}
AUDIT: Final[Mapping[str, Sequence[str]]] = {
    "Overview": ("Dashboard",),
    gettext_noop("Audit"): ("Audit trail", "Account changes", "Memberships"),
}
PLATFORM_ORDER: Final = ("Metering", "Quotas", "Tenants", "Billing")
"""After what comes first, the other groups, each with what is left of it."""


def arrange(groups: list[Group], request: HttpRequest) -> list[Group]:
    """Return the groups of the sidebar for the signed-in person, in the order of the role.

    Args:
        groups: All of them, with the entries that the person may open.
        request: Of a page of the admin; its language is that of the titles.
    """
    return [
        {**_translated(group), "items": [_translated(entry) for entry in group["items"]]}
        for group in _arranged(groups, request)
    ]


def _translated(titled: Group) -> Group:
    return {**titled, "title": gettext(str(titled["title"]))}


def _arranged(groups: list[Group], request: HttpRequest) -> list[Group]:
    if not groups:
        return groups
    writes_money, writes_clusters = (
        holds(request, capability) for capability in (WRITES_MONEY, WRITES_CLUSTERS)
    )
    if writes_money and not writes_clusters:
        return [*_chosen(groups, FINANCE), _more(request)]
    if writes_clusters and not writes_money:
        return _first(groups, PLATFORM, order=PLATFORM_ORDER)
    if not writes_clusters:
        return _first(groups, AUDIT, order=[str(group["title"]) for group in groups])
    return groups


def _chosen(groups: list[Group], wanted: Mapping[str, Sequence[str]]) -> list[Group]:
    """Return new groups with the entries of these titles, those that the person may open."""
    entries = {str(entry["title"]): entry for group in groups for entry in group["items"]}
    shape = groups[0]
    return [
        {**shape, "title": title, "items": [entries[name] for name in names if name in entries]}
        for title, names in wanted.items()
    ]


def _first(
    groups: list[Group], wanted: Mapping[str, Sequence[str]], *, order: Sequence[str]
) -> list[Group]:
    """Return the wanted groups, and then the others without what these have."""
    taken = {name for names in wanted.values() for name in names}
    left = [
        {**group, "items": [one for one in group["items"] if str(one["title"]) not in taken]}
        for group in sorted(
            (group for group in groups if str(group["title"]) in order),
            key=lambda group: order.index(str(group["title"])),
        )
    ]
    return [*_chosen(groups, wanted), *(group for group in left if group["items"])]


def _more(request: HttpRequest) -> Group:
    link = reverse("admin:app_list", args=["billing"])
    entry = {
        "title": MORE,
        "icon": "apps",
        "link": link,
        "active": request.path == link,
        "has_permission": True,
    }
    return {
        "title": gettext_noop("More"),
        "separator": True,
        "collapsible": False,
        "items": [entry],
    }
