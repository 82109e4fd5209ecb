"""Words and figures of the tenant pages in the language of the person."""

from datetime import datetime
from typing import Final

from django.utils.formats import date_format
from django.utils.translation import get_language, gettext, gettext_noop

from billing.domain.period import Month

WORDS: Final = {
    "submitted": gettext_noop("submitted"),
    "approved": gettext_noop("approved"),
    "rejected": gettext_noop("rejected"),
    "cancelled": gettext_noop("withdrawn"),
    "expired": gettext_noop("expired"),
    "waiting": gettext_noop("waiting"),
    "open": gettext_noop("open"),
    "escalated": gettext_noop("escalated"),
    "closed": gettext_noop("closed"),
    "asked": gettext_noop("asked"),
    "commented": gettext_noop("commented"),
    "project_lead": gettext_noop("project lead"),
    "organization_admin": gettext_noop("organization admin"),
    "platform": gettext_noop("platform"),
    "finance": gettext_noop("finance"),
    "draft": gettext_noop("draft"),
    "final": gettext_noop("final"),
    "part_paid": gettext_noop("part paid"),
    "paid": gettext_noop("paid"),
    "overdue": gettext_noop("overdue"),
    "disputed": gettext_noop("disputed"),
    "written_off": gettext_noop("written off"),
    "credited": gettext_noop("credited"),
    "carried": gettext_noop("carried"),
    "invoice": gettext_noop("Invoice"),
    "credit_note": gettext_noop("Credit note"),
    "debit_note": gettext_noop("Debit note"),
    "not_running": gettext_noop("Not running"),
    "idle": gettext_noop("Idle"),
    "memory_parked": gettext_noop("Memory parked"),
    "imbalanced": gettext_noop("Imbalanced"),
    "low_use": gettext_noop("Low use"),
    "low_use_day": gettext_noop("Low use day"),
    "oversized": gettext_noop("Oversized"),
}
"""States, levels, actions and kinds by value, as people read them."""
SCOPES: Final = (gettext_noop("organization"), gettext_noop("project"), gettext_noop("user"))
"""Of limits, as templates translate them."""
READERS: Final = (
    gettext_noop(
        "a platform admin, a finance admin, an auditor or an administrator of the organization"
    ),
)
"""Readers of a whole invoice, as roles have it."""
NONE: Final = "\N{EN DASH}"
COMMA: Final = str.maketrans(",.", ".,")
"""German has the comma before the decimals, and points between the thousands."""


def word(value: str) -> str:
    """Return a value as people read it; one that has no word stays as it is."""
    text = WORDS.get(value)
    return value.replace("_", " ") if text is None else gettext(text)


def figure(text: str) -> str:
    """Return a number such as "1,234.50", which may have a unit, as the language writes it."""
    return text.translate(COMMA) if get_language() == "de" else text


def month_text(month: Month) -> str:
    """Return a month such as "October 2026"."""
    return date_format(datetime(month.year, month.month, 1), "F Y")  # noqa: DTZ001 - A month has no zone.


def time_text(at: datetime | None) -> str:
    """Return a time in UTC such as "2 Nov 2026, 09:00 UTC"; a dash without one."""
    return NONE if at is None else f"{date_format(at, gettext('j M Y, H:i'))} UTC"
