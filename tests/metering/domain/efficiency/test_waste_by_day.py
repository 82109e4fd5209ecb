"""Rules of a day and of a week: which a window judges, what stands meanwhile, whose band it is."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import SharingMode
from metering.domain.efficiency.rules import DEFAULT_THRESHOLDS, WasteRule, Work, thresholds_of
from metering.domain.efficiency.waste import (
    ACTIVITY_RULES,
    NOTHING,
    Spell,
    Suggestion,
    WasteVerdict,
    judge,
    rules_asked,
    waits_for_its_day,
)
from tests.metering.domain.efficiency.test_waste import BUSY, CATALOGUE, END, LOW, tenure, verdict

HOURLY = rules_asked(DEFAULT_THRESHOLDS, is_daily=False)
DAILY = rules_asked(DEFAULT_THRESHOLDS, is_daily=True)
RATIOS = st.decimals(min_value=0, max_value=1, places=6)
MEBIBYTES = st.none() | st.integers(0, 100_000)


def test_an_hour_judges_what_looks_back_hours_and_a_day_everything() -> None:
    assert DAILY == ACTIVITY_RULES
    assert HOURLY == (
        WasteRule.IDLE,
        WasteRule.MEMORY_PARKED,
        WasteRule.IMBALANCED,
        WasteRule.LOW_USE,
    )


def test_an_idle_rule_over_two_days_is_left_to_the_day() -> None:
    thresholds = thresholds_of({"idle_hours": 48, "oversized_hours": 12})

    assert rules_asked(thresholds, is_daily=False) == (
        WasteRule.MEMORY_PARKED,
        WasteRule.IMBALANCED,
        WasteRule.LOW_USE,
        WasteRule.OVERSIZED,
    )


# ---------------------------------------------------------------- what stands meanwhile


def said(rule: WasteRule) -> WasteVerdict:
    return WasteVerdict(rule, END, NOTHING)


def test_what_is_judged_every_hour_never_waits() -> None:
    for rule in (*HOURLY, WasteRule.NOT_RUNNING):
        assert not waits_for_its_day(rule, asked=HOURLY, verdict=None)


def test_nothing_waits_when_the_day_is_judged() -> None:
    for rule in WasteRule:
        assert not waits_for_its_day(rule, asked=DAILY, verdict=None)


@pytest.mark.parametrize("rule", [WasteRule.LOW_USE_DAY, WasteRule.OVERSIZED])
def test_a_daily_word_stands_while_nothing_is_said(rule: WasteRule) -> None:
    assert waits_for_its_day(rule, asked=HOURLY, verdict=None)


@pytest.mark.parametrize("rule", [*HOURLY, WasteRule.NOT_RUNNING])
def test_a_stronger_word_does_not_wait_for_the_day(rule: WasteRule) -> None:
    assert not waits_for_its_day(WasteRule.LOW_USE_DAY, asked=HOURLY, verdict=said(rule))


def test_a_daily_word_that_is_stronger_outlasts_a_weaker_one_of_the_hour() -> None:
    thresholds = thresholds_of({"idle_hours": 24})
    asked = rules_asked(thresholds, is_daily=False)

    assert waits_for_its_day(WasteRule.IDLE, asked=asked, verdict=said(WasteRule.LOW_USE))
    assert not waits_for_its_day(WasteRule.IDLE, asked=asked, verdict=said(WasteRule.NOT_RUNNING))


# ---------------------------------------------------------------- bands of a kind of work


def by_day(activity: str, work: Work) -> WasteVerdict | None:
    """Return the verdict about a day's mean."""
    return verdict(
        None, replace(tenure(), work=work), low_use_day=replace(LOW, activity=Decimal(activity))
    )


@pytest.mark.parametrize(
    ("work", "below", "at"),
    [(Work.NOTEBOOK, "0.099999", "0.1"), (Work.BATCH, "0.299999", "0.3")],
)
def test_a_days_mean_accuses_below_the_band_only(work: Work, below: str, at: str) -> None:
    found = by_day(below, work)

    assert found is not None
    assert (found.rule, found.from_at) == (WasteRule.LOW_USE_DAY, END - timedelta(hours=24))
    assert found.suggestion == Suggestion(1, "medium", "H100/2g.20gb", Fraction(2, 7))
    assert by_day(at, work) is None


def test_work_of_an_unknown_kind_has_no_band() -> None:
    assert by_day("0", Work.UNKNOWN) is None


def test_the_common_rule_is_said_before_the_days() -> None:
    found = verdict(LOW, replace(tenure(), work=Work.BATCH))

    assert found is not None
    assert found.rule is WasteRule.LOW_USE


def test_a_day_is_not_judged_of_a_pod_that_came_within_it() -> None:
    young = tenure(begin_at=END - timedelta(hours=24, seconds=-1))

    assert verdict(None, replace(young, work=Work.BATCH), low_use_day=LOW) is None


def test_a_busy_hour_of_the_day_keeps_its_gpu() -> None:
    bursts = replace(LOW, activity=Decimal("0.05"), activity_highest=Decimal("0.95"))

    found = verdict(None, replace(tenure(), work=Work.NOTEBOOK), low_use_day=bursts)

    assert found is not None
    assert found.suggestion == Suggestion(1, "large", "H100/whole", Fraction(1))


# ---------------------------------------------------------------- never accuse


@st.composite
def spells(draw: st.DrawFn) -> Spell:
    """Any figures, however contradictory."""
    return Spell(
        covered_seconds=draw(st.integers(0, 10**7)),
        activity=draw(RATIOS),
        activity_highest=draw(RATIOS),
        activity_p95=draw(RATIOS),
        memory_peak_mebibytes=draw(MEBIBYTES),
        memory_lowest_mebibytes=draw(MEBIBYTES),
        memory_p95_mebibytes=draw(MEBIBYTES),
        memory_total_mebibytes=draw(st.none() | st.integers(0, 200_000)),
        power_milliwatts=draw(st.none() | st.integers(0, 1_000_000)),
        devices=tuple(draw(st.lists(RATIOS, max_size=8))),
    )


@given(
    spell=spells(),
    units=st.integers(1, 8),
    work=st.sampled_from(Work),
    rules=st.sets(st.sampled_from(ACTIVITY_RULES)),
)
def test_who_is_accused_was_there_and_measured_for_long_enough(
    spell: Spell, units: int, work: Work, rules: set[WasteRule]
) -> None:
    held = replace(tenure(units=units), work=work)

    found = judge(
        held,
        spells=dict.fromkeys(rules, spell),
        at=END,
        thresholds=DEFAULT_THRESHOLDS,
        catalogue=CATALOGUE,
    )

    if found is not None:
        seconds = DEFAULT_THRESHOLDS.hours_of(found.rule) * 3600
        assert found.rule in rules
        assert found.from_at == END - timedelta(seconds=seconds) >= held.begin_at
        assert 10 * spell.covered_seconds >= 8 * units * seconds
        assert found.suggestion.units <= units
        assert found.suggestion.share <= held.share


@given(spell=spells(), mode=st.sampled_from([SharingMode.MPS, SharingMode.TIME_SLICING]))
def test_nothing_that_is_measured_accuses_who_shares_a_device(
    spell: Spell, mode: SharingMode
) -> None:
    assert verdict(spell, tenure(sharing_mode=mode)) is None


@given(spell=spells())
def test_a_whole_gpu_at_nothing_that_draws_power_is_never_accused(spell: Spell) -> None:
    hot = replace(spell, activity=Decimal(0), power_milliwatts=150_001)

    assert verdict(hot) is None


@given(
    work=st.sampled_from(Work),
    activity=st.decimals(min_value=Decimal("0.3"), max_value=1, places=6),
    memory=st.integers(500, 81_559),
)
def test_anyone_who_uses_a_third_all_day_is_never_accused(
    work: Work, activity: Decimal, memory: int
) -> None:
    spell = replace(
        BUSY,
        activity=activity,
        activity_highest=activity,
        activity_p95=activity,
        memory_p95_mebibytes=memory,
        devices=(activity,),
    )

    assert verdict(spell, replace(tenure(), work=work)) is None
