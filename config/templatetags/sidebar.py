"""The filter that calls a table in the breadcrumbs what the sidebar calls it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django import template
from django.utils.translation import gettext

from config.settings.unfold import UNFOLD

register = template.Library()


@cache
def _titles() -> Mapping[str, str]:
    """Return the title of each link of the sidebar."""
    groups = UNFOLD["SIDEBAR"]["navigation"]
    return {str(entry["link"]): entry["title"] for group in groups for entry in group["items"]}


@register.filter
def sidebar_title(part: Mapping[str, Any]) -> str:
    """Return the sidebar's title of a part of the breadcrumbs, or else its own."""
    title = _titles().get(str(part["link"]))
    return gettext(title) if title else str(part["title"])
