"""Words and figures of the tenant pages in the language of the person."""

from datetime import datetime
from typing import Final

from django.utils.formats import date_format
from django.utils.translation import gettext, gettext_noop

from billing.domain.period import Month
from tenants.templatetags.texts import NONE, value_text

RENAMED: Final = {
    "cancelled": gettext_noop("withdrawn"),
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
    "asked": gettext_noop("asked"),
    "commented": gettext_noop("commented"),
}
"""What a value is called here; others are as `value_text` has them."""
SCOPES: Final = (gettext_noop("organization"), gettext_noop("project"), gettext_noop("user"))
"""Of limits, as templates translate them."""


def word(value: str) -> str:
    """Return a value as people read it."""
    return gettext(RENAMED[value]) if value in RENAMED else value_text(value)


def month_text(month: Month) -> str:
    """Return a month such as "October 2026"."""
    return date_format(datetime(month.year, month.month, 1), "F Y")  # noqa: DTZ001 - A month has no zone.


def time_text(at: datetime | None) -> str:
    """Return a time in UTC such as "2 Nov 2026, 09:00 UTC"; a dash without one."""
    return NONE if at is None else f"{date_format(at, gettext('j M Y, H:i'))} UTC"
