"""What pages of every app write in the language of the person: figures, states, times and roles."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Final

from django import template
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import get_language, gettext, gettext_noop

from tenants.domain.identity.granting import ANYWHERE, holders_of
from tenants.domain.identity.roles import RoleScope

register = template.Library()
ROLES: Final = (
    gettext_noop("a platform admin"),
    gettext_noop("a finance admin"),
    gettext_noop("an auditor"),
    gettext_noop("an administrator of the organization"),
    gettext_noop("a project lead of the project"),
    gettext_noop("a member of the project"),
    gettext_noop("nobody"),
)
"""As `holders_of` names them."""
NONE: Final = "\N{EN DASH}"
SEPARATOR: Final = re.compile("(?<=[0-9])[.,](?=[0-9])")
COMMA: Final = {",": ".", ".": ","}
"""German has the comma before the decimals, and points between the thousands."""


@register.filter
def figure(text: str) -> str:
    """Return a text with numbers such as "1,234.50" as the language writes them."""
    return SEPARATOR.sub(lambda found: COMMA[found[0]], text) if get_language() == "de" else text


@register.filter
def value_text(value: str) -> str:
    """Return a state or kind, such as "part_paid", as people read it."""
    text = str(value).replace("_", " ")
    return gettext(text) if text else ""


def who_may_text(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> str:
    """Return the roles with a capability, such as "a finance admin or a platform admin"."""
    *others, last = (gettext(role) for role in holders_of(capability, reach=reach))
    return (
        gettext("{others} or {last}").format(others=", ".join(others), last=last)
        if others
        else last
    )


def minute_text(at: datetime | None) -> str:
    """Return a time as columns of the language have it; a dash without one."""
    return NONE if at is None else date_format(at, "SHORT_DATETIME_FORMAT")


def hours_text(begin_at: datetime, end_at: datetime | None) -> str:
    """Return a range of hours in UTC; without an end it is open-ended."""
    begin = minute_text(begin_at)
    if end_at is None:
        return gettext("since {begin}").format(begin=begin)
    return gettext("{begin} to {end}").format(begin=begin, end=minute_text(end_at))


def english(text: str) -> str:
    """Return a sentence of a service, which is English; a page in another language marks it so."""
    return text if get_language() == "en" else format_html('<span lang="en">{}</span>', text)
