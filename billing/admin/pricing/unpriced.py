"""The table of what use lacks a price for, with a link that begins each remedy."""

from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from billing.access import WRITE_PRICE, exceptions_visible_to
from billing.admin.amounts import hours_text
from billing.selectors.pricing.unpriced import REMEDIES_MAX, UnpricedRemedy, unpriced_by_remedy
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import who_may_text

REASON: Final = "Use without a price."
REMEDY_LABELS: Final = {
    "no_price": gettext_noop("Draft a price"),
    "no_price_book": gettext_noop("Assign a price book"),
    "no_price_calendar": gettext_noop("Publish a calendar"),
}
LACKS: Final = {
    "no_price": gettext_noop("No price"),
    "no_price_book": gettext_noop("No price book"),
    "no_price_calendar": gettext_noop("No calendar of prices"),
}


COLUMNS: Final = (
    (gettext_noop("Lacking"), False),
    (gettext_noop("Organizations"), False),
    (gettext_noop("Hours"), True),
    (gettext_noop("Unit-hours"), True),
    (gettext_noop("Since (UTC)"), False),
    (gettext_noop("Remedy"), False),
)
"""Of the table, and whether each has numbers."""


def unpriced_context(actor: Actor) -> dict[str, Any]:
    """Return the template's values: one row for each remedy, most use first."""
    found = unpriced_by_remedy(exceptions_visible_to(actor), limit=REMEDIES_MAX + 1)
    return {
        "overview": [_row(one) for one in found[:REMEDIES_MAX]],
        "overview_title": gettext("What lacks a price, by remedy"),
        "overview_columns": [(gettext(title), is_number) for title, is_number in COLUMNS],
        "overview_cut": REMEDIES_MAX if len(found) > REMEDIES_MAX else 0,
        "may_write": actor.may(WRITE_PRICE),
        "who_may": who_may_text(WRITE_PRICE, reach={RoleScope.PLATFORM}),
    }


def _row(use: UnpricedRemedy) -> dict[str, Any]:
    more = use.organizations - len(use.names)
    return {
        "use": use,
        "lacks": gettext(LACKS.get(use.code, use.code)),
        "about": _about(use),
        "unit_hours": hours_text(use.unit_seconds),
        "organizations": ", ".join(use.names)
        + (gettext(" and {more} more").format(more=more) if more else ""),
        "link": _link(use),
        "label": gettext(REMEDY_LABELS[use.code]) if use.code in REMEDY_LABELS else "",
    }


def _about(use: UnpricedRemedy) -> str:
    if use.code == "no_price":
        return gettext("{what}, price book {book}").format(
            what=f"{use.size} {use.price_group}", book=use.price_book
        )
    if not use.price_book:
        return ""
    return gettext("price book {book}").format(book=use.price_book)


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
