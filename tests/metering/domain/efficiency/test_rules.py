"""Thresholds of waste: the defaults, and what an operator may write."""

from decimal import Decimal

import pytest

from metering.domain.efficiency.rules import (
    DEFAULT_THRESHOLDS,
    WasteRule,
    WasteThresholds,
    Work,
    thresholds_of,
    work_of,
)


def test_nothing_given_is_the_defaults() -> None:
    assert thresholds_of({}) == DEFAULT_THRESHOLDS


def test_the_common_rule_is_under_a_fifth_for_four_hours() -> None:
    assert DEFAULT_THRESHOLDS.low_use_activity_ratio == Decimal("0.2")
    assert [DEFAULT_THRESHOLDS.hours_of(rule) for rule in WasteRule] == [0, 1, 2, 1, 4, 24, 168]


def test_the_furthest_look_back_is_that_of_any_rule() -> None:
    assert DEFAULT_THRESHOLDS.hours_max == 168
    assert thresholds_of({"oversized_hours": 20, "parked_hours": 30}).hours_max == 30


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


# ---------------------------------------------------------------- daily rules, kinds of work


def test_what_looks_back_a_day_or_more_is_judged_once_a_day() -> None:
    daily = {rule for rule in WasteRule if DEFAULT_THRESHOLDS.is_daily(rule)}

    assert daily == {WasteRule.LOW_USE_DAY, WasteRule.OVERSIZED}


@pytest.mark.parametrize(("hours", "is_daily"), [(23, False), (24, True), (25, True)])
def test_the_configured_time_says_how_often_a_rule_is_judged(hours: int, is_daily: bool) -> None:  # noqa: FBT001 - A table's column.
    thresholds = thresholds_of({"idle_hours": hours, "oversized_hours": hours})

    assert thresholds.is_daily(WasteRule.IDLE) is is_daily
    assert thresholds.is_daily(WasteRule.OVERSIZED) is is_daily


@pytest.mark.parametrize(
    ("controller", "work"),
    [
        ("Notebook/carol", Work.NOTEBOOK),
        ("StatefulSet/jupyter-carol", Work.NOTEBOOK),
        ("Job/train", Work.BATCH),
        ("PyTorchJob/train", Work.BATCH),
        ("Workflow/nightly", Work.BATCH),
        ("ReplicaSet/serve-5d8f", Work.UNKNOWN),
        ("CronJob/nightly", Work.UNKNOWN),
        ("job/train", Work.UNKNOWN),
        ("Jobs", Work.UNKNOWN),
        ("", Work.UNKNOWN),
    ],
)
def test_the_controller_shows_the_kind_of_work(controller: str, work: Work) -> None:
    assert work_of(controller) is work


def test_each_kind_of_work_has_its_own_band() -> None:
    given = thresholds_of({"notebook_activity_ratio": "0.05", "batch_activity_ratio": "0.25"})

    assert [DEFAULT_THRESHOLDS.activity_ratio_of(work) for work in Work] == [
        Decimal("0.1"),
        Decimal("0.3"),
        None,
    ]
    assert [given.activity_ratio_of(work) for work in Work] == [
        Decimal("0.05"),
        Decimal("0.25"),
        None,
    ]
