"""How often a quota is repaired that others delete."""

from datetime import timedelta

import pytest

from quotas.domain.enforcement.repairs import next_repair_at, recent_repairs
from tests.support.builders import AT


def before(*seconds: int) -> list[str]:
    """Return repairs so many seconds ago."""
    return [(AT - timedelta(seconds=one)).isoformat() for one in seconds]


@pytest.mark.parametrize(
    ("repaired_at", "wait_seconds"),
    [
        ([], 0),
        (before(9, 4), 0),
        (before(599, 300, 1), 1),
        (before(600, 300, 1), 0),
        (before(4_000, 500, 300, 1), 100),
        (before(20, 10, 0), 580),
    ],
)
def test_three_repairs_within_ten_minutes_are_the_most(
    repaired_at: list[str], wait_seconds: int
) -> None:
    assert next_repair_at(repaired_at, at=AT) == AT + timedelta(seconds=wait_seconds)


def test_older_repairs_do_not_count() -> None:
    assert recent_repairs(before(700, 600, 599, 0), at=AT) == before(599, 0)
