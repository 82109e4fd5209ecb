"""Thresholds of waste: the defaults, and what an operator may write."""

from decimal import Decimal

import pytest

from metering.domain.waste_rules import (
    DEFAULT_THRESHOLDS,
    WasteRule,
    WasteThresholds,
    thresholds_of,
)


def test_nothing_given_is_the_defaults() -> None:
    assert thresholds_of({}) == DEFAULT_THRESHOLDS


def test_the_common_rule_is_under_a_fifth_for_four_hours() -> None:
    assert DEFAULT_THRESHOLDS.low_use_activity_ratio == Decimal("0.2")
    assert [DEFAULT_THRESHOLDS.hours_of(rule) for rule in WasteRule] == [0, 1, 2, 1, 4, 168]


def test_ratios_are_numbers_or_text_and_hours_whole_numbers() -> None:
    found = thresholds_of(
        {"idle_activity_ratio": "0.05", "low_use_activity_ratio": 1, "idle_hours": 3}
    )

    assert found == WasteThresholds(
        idle_activity_ratio=Decimal("0.05"), low_use_activity_ratio=Decimal(1), idle_hours=3
    )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("idle_hour", 1, "idle_hour is no threshold."),
        ("idle_hours", 0, "idle_hours must be a whole number from 1 to 744."),
        ("idle_hours", 745, "idle_hours must be a whole number from 1 to 744."),
        ("idle_hours", "1", "idle_hours must be a whole number from 1 to 744."),
        ("idle_hours", True, "idle_hours must be a whole number from 1 to 744."),
        ("contradicting_watts", 0, "contradicting_watts must be from 1 up."),
        ("idle_activity_ratio", "2", "idle_activity_ratio must be a number from 0 to 1."),
        ("idle_activity_ratio", "-0.1", "idle_activity_ratio must be a number from 0 to 1."),
        ("idle_activity_ratio", "NaN", "idle_activity_ratio must be a number from 0 to 1."),
        ("idle_activity_ratio", "much", "idle_activity_ratio must be a number from 0 to 1."),
        ("idle_activity_ratio", None, "idle_activity_ratio must be a number from 0 to 1."),
        ("idle_activity_ratio", False, "idle_activity_ratio must be a number from 0 to 1."),
    ],
)
def test_a_wrong_threshold_is_named(name: str, value: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as refusal:
        thresholds_of({name: value})

    assert str(refusal.value) == sentence


def test_all_wrong_thresholds_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"no threshold; idle_hours must be .*; parked_hours must"):
        thresholds_of({"zeal": 1, "parked_hours": -1, "idle_hours": None})
