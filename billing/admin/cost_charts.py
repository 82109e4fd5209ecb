"""Charts of costs: stacked bars a day, of the largest groups and all others together."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.formats import date_format
from django.utils.translation import get_language, gettext

PALETTE: Final = (
    "#0f766e",
    "#6366f1",
    "#f59e0b",
    "#db2777",
    "#0284c7",
    "#65a30d",
    "#9333ea",
    "#dc2626",
)
"""In this order distinguishable for colour-blind readers."""
GROUPS_MAX: Final = len(PALETTE)
ZERO: Final = Decimal(0)
OTHERS_COLOR: Final = "#94a3b8"
BAR_OPTIONS: Final = {
    "maintainAspectRatio": False,
    "animation": False,
    "plugins": {"legend": {"display": True, "position": "bottom"}},
    "scales": {
        "x": {"stacked": True, "grid": {"display": False}},
        "y": {"stacked": True, "beginAtZero": True, "ticks": {"display": True}},
    },
}


Amounts = Mapping[date, Decimal]


def stacked_days(
    title: str,
    groups: Mapping[str, Amounts],
    days: Sequence[date],
    *,
    others: Amounts | None = None,
) -> dict[str, Any]:
    """Return a chart of a bar a day, with the largest groups by name.

    Args:
        title: Above it.
        groups: Amounts by name and day.
        days: All days, in order.
        others: Of groups that are not among these.
    """
    largest = sorted(groups, key=lambda name: (-sum(groups[name].values()), name))
    shown = sorted(largest[:GROUPS_MAX])
    sets = [_bars(name, groups[name], days, PALETTE[n]) for n, name in enumerate(shown)]
    rest = [groups[name] for name in largest[GROUPS_MAX:]] + ([others] if others else [])
    if rest:
        added = {day: sum((one.get(day, ZERO) for one in rest), ZERO) for day in days}
        sets.append(_bars(gettext("Others"), added, days, OTHERS_COLOR))
    return {
        "title": title,
        "data": json.dumps({"labels": _labels(days), "datasets": sets}, cls=DjangoJSONEncoder),
        "options": json.dumps({**BAR_OPTIONS, "locale": get_language()}),
    }


def _bars(name: str, amounts: Amounts, days: Sequence[date], color: str) -> dict[str, Any]:
    return {
        "label": name,
        "data": [amounts.get(day, ZERO) for day in days],
        "backgroundColor": color,
        "displayYAxis": True,
        "maxBarThickness": 22,
    }


def _labels(days: Sequence[date]) -> list[str]:
    """Return the days of one month by number, others with their month."""
    is_one_month = len({(day.year, day.month) for day in days}) == 1
    return [str(day.day) if is_one_month else date_format(day, gettext("j M")) for day in days]
