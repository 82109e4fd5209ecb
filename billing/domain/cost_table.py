"""The table of a cost report, for spreadsheets: the same rows, figures bare and exact."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from billing.domain.costs import DAY, CostDimension, CostKey, CostQuery, GroupCost
from billing.domain.documents.document import amount_text, unit_hours_text

FIGURES: Final = (
    "unit_seconds",
    "unit_hours",
    "cost",
    "previous_cost",
    "growth",
    "share",
    "run_rate",
)
"""Columns of numbers; a figure that does not apply is empty. Ratios, not percent."""


def cost_columns(group_by: Sequence[CostDimension]) -> tuple[str, ...]:
    """Return the names of the columns, in order."""
    keys = [name for dimension in group_by for name in _KEY_COLUMNS[dimension]]
    return (*dict.fromkeys(keys), "currency", *FIGURES)


def cost_record(row: GroupCost) -> Mapping[str, str]:
    """Return the texts of a row by column."""
    seconds = row.unit_seconds
    record = {
        "currency": row.cost.currency,
        "unit_seconds": "" if seconds is None else str(seconds),
        "unit_hours": "" if seconds is None else unit_hours_text(seconds),
        "cost": amount_text(row.cost),
        "previous_cost": amount_text(row.previous_cost),
        "growth": _ratio_text(row.growth),
        "share": _ratio_text(row.share),
        "run_rate": "" if row.run_rate is None else amount_text(row.run_rate),
    }
    for key in row.keys:
        record |= _key_record(key)
    return record


_KEY_COLUMNS: Final = {
    CostDimension.ORGANIZATION: ("organization", "organization_name"),
    CostDimension.PROJECT: ("organization", "project", "project_name"),
    CostDimension.OWNER: ("owner",),
    CostDimension.COST_CENTER: ("cost_center",),
    CostDimension.SIZE: ("size",),
    CostDimension.PRICE_GROUP: ("price_group",),
    CostDimension.CLUSTER: ("cluster", "cluster_name"),
}


def _key_record(key: CostKey) -> dict[str, str]:
    by = key.by.value
    record = {by: key.slug, f"{by}_name": key.name} if key.slug else {by: key.value}
    return record | ({"organization": key.organization} if key.organization else {})


def _ratio_text(ratio: Decimal | None) -> str:
    return "" if ratio is None else str(ratio)


def cost_file_name(query: CostQuery, *, suffix: str) -> str:
    """Return the name of a file of costs, with the first and the last day."""
    return f"costs-{query.first}-{query.end - DAY}.{suffix}"
