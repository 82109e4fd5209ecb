"""Request policies in words, for a column that a person reads."""

from decimal import Decimal
from typing import Any

import pytest

from quotas.domain.requests.labels import band_text, days_text, escalation_text, steps_text


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{"level": "organization_admin"}], "organization admin"),
        (
            [{"level": "organization_admin"}, {"level": "finance", "cost_from": "10000"}],
            "organization admin, then finance from 10,000 EUR a month",
        ),
        (
            [
                {
                    "level": "platform",
                    "units_from": {"large": 16, "small": 64},
                    "cost_from": "50000.50",
                }
            ],
            "platform from 64 small or 16 large or 50,000.50 EUR a month",
        ),
        (
            [{"level": "project_lead", "units_from": {"medium": 1}, "cost_from": None}],
            "project lead from 1 medium",
        ),
    ],
)
def test_steps_are_reported_with_what_they_take_part_from(
    steps: list[dict[str, Any]], expected: str
) -> None:
    assert steps_text(steps, currency="EUR") == expected


@pytest.mark.parametrize(
    ("units", "cost", "expected"),
    [
        ({}, None, "nothing: a person always decides"),
        ({}, Decimal(500), "nothing: a person always decides"),
        ({"small": 4}, None, "up to 4 small"),
        (
            {"medium": 2, "small": 4},
            Decimal("500.0000"),
            "up to 4 small or 2 medium for at most 500 USD a month",
        ),
        ({"large": 1}, Decimal("0.5"), "up to 1 large for at most 0.50 USD a month"),
    ],
)
def test_a_band_is_reported_with_its_cost(
    units: dict[str, int], cost: Decimal | None, expected: str
) -> None:
    assert band_text(units, cost, currency="USD") == expected


def test_times_are_reported_with_their_unit() -> None:
    assert [escalation_text(hours) for hours in (None, 1, 24)] == [
        "never",
        "after 1 hour",
        "after 24 hours",
    ]
    assert [days_text(days) for days in (1, 30)] == ["1 day", "30 days"]
