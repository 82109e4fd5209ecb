"""What a plan of PostgreSQL, explained as JSON with ANALYZE, has read."""

from collections.abc import Iterator
from typing import Any


def scans(plan: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each table that a plan reads, and of how many rows."""
    if "Relation Name" in plan:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield plan["Relation Name"], round(rows * plan["Actual Loops"])
    for part in plan.get("Plans", ()):
        yield from scans(part)
