"""Figures as people read them."""

from decimal import Decimal

import pytest

from metering.domain.figures import percent_text, unit_hours_text


@pytest.mark.parametrize(
    ("unit_seconds", "words"),
    [(0, "0.00"), (3_600, "1.00"), (4_500, "1.25"), (-1_800, "-0.50"), (4_444_200, "1,234.50")],
)
def test_unit_seconds_are_reported_as_unit_hours(unit_seconds: int, words: str) -> None:
    assert unit_hours_text(unit_seconds) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(Decimal(1), "100.0 %"), (Decimal("0.98"), "98.0 %"), (Decimal(0), "0.0 %"), (None, "-")],
)
def test_a_share_is_reported_in_percent_and_none_as_nothing(
    ratio: Decimal | None, words: str
) -> None:
    assert percent_text(ratio) == words.replace(" ", "\N{NO-BREAK SPACE}")
