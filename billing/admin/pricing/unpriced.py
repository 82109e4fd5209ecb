"""The table of what use lacks a price for, with a link that begins each remedy."""

from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from billing.access import WRITE_PRICE, exceptions_visible_to
from billing.domain.documents.document_text import hours_text
from billing.selectors.pricing.unpriced import REMEDIES_MAX, UnpricedRemedy, unpriced_by_remedy
from tenants.domain.actors import Actor
from tenants.domain.identity.granting import who_may
from tenants.domain.identity.roles import RoleScope

REASON: Final = "Use without a price."
REMEDY_LABELS: Final = {
    "no_price": "Draft a price",
    "no_price_book": "Assign a price book",
    "no_price_calendar": "Publish a calendar",
}
LACKS: Final = {
    "no_price": "No price",
    "no_price_book": "No price book",
    "no_price_calendar": "No calendar of prices",
}


COLUMNS: Final = (
    ("Lacking", False),
    ("Organizations", False),
    ("Hours", True),
    ("Unit-hours", True),
    ("Since (UTC)", False),
    ("Remedy", False),
)
"""Of the table, and whether each has numbers."""


def unpriced_context(actor: Actor) -> dict[str, Any]:
    """Return the template's values: one row for each remedy, most use first."""
    found = unpriced_by_remedy(exceptions_visible_to(actor), limit=REMEDIES_MAX + 1)
    return {
        "overview": [_row(one) for one in found[:REMEDIES_MAX]],
        "overview_title": "What lacks a price, by remedy",
        "overview_columns": COLUMNS,
        "overview_cut": REMEDIES_MAX if len(found) > REMEDIES_MAX else 0,
        "may_write": actor.may(WRITE_PRICE),
        "who_may": who_may(WRITE_PRICE, reach={RoleScope.PLATFORM}),
    }


def _row(use: UnpricedRemedy) -> dict[str, Any]:
    more = use.organizations - len(use.names)
    return {
        "use": use,
        "lacks": LACKS.get(use.code, use.code),
        "about": _about(use),
        "unit_hours": hours_text(use.unit_seconds),
        "organizations": ", ".join(use.names) + (f" and {more} more" if more else ""),
        "link": _link(use),
        "label": REMEDY_LABELS.get(use.code, ""),
    }


def _about(use: UnpricedRemedy) -> str:
    if use.code == "no_price":
        return f"{use.size} {use.price_group}, price book {use.price_book}"
    return f"price book {use.price_book}" if use.price_book else ""


def _link(use: UnpricedRemedy) -> str:
    """Return the form of the remedy, filled in."""
    if use.code == "no_price_book":
        page, fields = "billing_pricebookassignment", {"organization": str(use.organization_id)}
    elif use.code == "no_price_calendar":
        page, fields = "billing_pricecalendar", {"price_book": str(use.price_book_id)}
    else:
        page = "billing_pricedraft"
        fields = {
            "price_book": str(use.price_book_id),
            "lines": f"{use.size} {use.price_group} ",
            "reason": REASON,
        }
    fields["valid_from"] = use.first_start.isoformat()
    return f"{reverse(f'admin:{page}_add')}?{urlencode(fields)}"
