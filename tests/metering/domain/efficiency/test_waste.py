"""Waste: what each rule accuses, what would have served, and who is never accused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue
from metering.domain.catalogue.units import SharingMode
from metering.domain.efficiency.rules import DEFAULT_THRESHOLDS, WasteRule
from metering.domain.efficiency.waste import (
    NOTHING,
    Spell,
    Suggestion,
    Tenure,
    WasteVerdict,
    judge,
    waste_account,
)

HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)
CATALOGUE = Catalogue(version=1, rules=DEFAULT_RULES)
END = HOUR + timedelta(hours=1)
H100 = "NVIDIA-H100-80GB-HBM3"
BUSY = Spell(
    covered_seconds=10**9,
    activity=Decimal("0.9"),
    activity_highest=Decimal("0.95"),
    activity_p95=Decimal("0.95"),
    memory_peak_mebibytes=70_000,
    memory_lowest_mebibytes=60_000,
    memory_p95_mebibytes=69_000,
    memory_total_mebibytes=81_559,
    power_milliwatts=600_000,
    devices=(Decimal("0.9"),),
)
SLEEPING = replace(
    BUSY,
    activity=Decimal(0),
    activity_highest=Decimal(0),
    activity_p95=Decimal(0),
    memory_peak_mebibytes=4,
    memory_lowest_mebibytes=4,
    memory_p95_mebibytes=4,
    power_milliwatts=70_000,
    devices=(Decimal(0),),
)
PARKED = replace(SLEEPING, memory_peak_mebibytes=45_000, memory_lowest_mebibytes=44_000)
LOW = replace(
    BUSY,
    activity=Decimal("0.1"),
    activity_highest=Decimal("0.13"),
    activity_p95=Decimal("0.12"),
    memory_peak_mebibytes=7_000,
    memory_p95_mebibytes=6_500,
)


def tenure(**fields: object) -> Tenure:
    """Return a whole H100 that runs since ten days ago."""
    defaults: dict[str, object] = {
        "begin_at": END - timedelta(days=10),
        "started_at": END - timedelta(days=10),
        "is_start_known": True,
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": SharingMode.WHOLE,
        "product": H100,
        "share": Fraction(1),
    }
    return Tenure(**{**defaults, **fields})  # type: ignore[arg-type]


def verdict(spell: Spell | None, held: Tenure | None = None, **only: Spell) -> WasteVerdict | None:
    """Return the verdict about a spell that every rule sees, or only the rules named."""
    spells = {} if spell is None else dict.fromkeys(WasteRule, spell)
    spells |= {WasteRule(name): one for name, one in only.items()}
    return judge(
        held or tenure(),
        spells=spells,
        at=END,
        thresholds=DEFAULT_THRESHOLDS,
        catalogue=CATALOGUE,
    )


def test_a_busy_pod_is_not_accused() -> None:
    assert verdict(BUSY) is None


def test_an_idle_pod_is_to_give_its_gpu_back() -> None:
    assert verdict(SLEEPING) == WasteVerdict(
        WasteRule.IDLE, HOUR, NOTHING, activity=Decimal(0), memory_peak_mebibytes=4
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"memory_peak_mebibytes": 500},
        {"memory_peak_mebibytes": None},
        {"activity": Decimal("0.01")},
    ],
)
def test_memory_or_activity_of_its_own_makes_a_pod_not_idle(changed: dict[str, object]) -> None:
    assert verdict(None, idle=replace(SLEEPING, **changed)) is None  # type: ignore[arg-type]


def test_parked_memory_that_no_smaller_instance_holds_keeps_its_gpu() -> None:
    found = verdict(PARKED)

    assert found is not None
    assert (found.rule, found.from_at) == (WasteRule.MEMORY_PARKED, END - timedelta(hours=2))
    assert found.suggestion == Suggestion(1, "large", "H100/whole", Fraction(1))


def test_parked_memory_of_half_a_gpu_fits_a_bigger_instance() -> None:
    small = replace(PARKED, memory_peak_mebibytes=30_000, memory_lowest_mebibytes=30_000)
    held = tenure(price_group="H100/whole")

    found = verdict(None, held, memory_parked=replace(small, memory_total_mebibytes=50_000))

    assert found is not None
    assert (found.suggestion.price_group, found.suggestion.share) == (
        "H100/3g.40gb",
        Fraction(3, 7),
    )


def test_parked_memory_that_is_not_half_of_the_device_is_no_park() -> None:
    spell = replace(PARKED, memory_lowest_mebibytes=40_000)

    assert verdict(None, memory_parked=spell) is None
    assert verdict(None, memory_parked=replace(spell, memory_total_mebibytes=None)) is None


def test_low_use_over_four_hours_is_offered_a_smaller_instance() -> None:
    assert verdict(LOW) == WasteVerdict(
        WasteRule.LOW_USE,
        END - timedelta(hours=4),
        Suggestion(1, "medium", "H100/2g.20gb", Fraction(2, 7)),
        activity=Decimal("0.1"),
        memory_peak_mebibytes=7_000,
    )


def test_one_busy_hour_of_the_four_ends_low_use() -> None:
    assert verdict(None, low_use=replace(LOW, activity_highest=Decimal("0.2"))) is None


def test_low_use_of_the_smallest_instance_keeps_what_it_holds() -> None:
    held = tenure(
        sharing_mode=SharingMode.MIG,
        share=Fraction(1, 7),
        price_group="H100/1g.10gb",
        size="small",
    )

    found = verdict(LOW, held)

    assert found is not None
    assert found.suggestion == Suggestion(1, "small", "H100/1g.10gb", Fraction(1, 7))


def test_low_use_without_memory_figures_suggests_nothing_smaller() -> None:
    found = verdict(None, low_use=replace(LOW, memory_peak_mebibytes=None))

    assert found is not None
    assert found.suggestion.price_group == "H100/whole"


def test_low_use_of_a_model_without_mig_is_offered_a_share() -> None:
    held = tenure(product="NVIDIA-L40S", price_group="L40S/whole")
    spell = replace(LOW, memory_total_mebibytes=46_068, memory_peak_mebibytes=7_000)

    found = verdict(None, held, low_use=spell)

    assert found is not None
    assert found.suggestion == Suggestion(1, "small", "L40S/1of4", Fraction(1, 4))


def test_a_week_of_small_needs_is_oversized() -> None:
    spell = replace(
        BUSY, activity_p95=Decimal("0.25"), memory_p95_mebibytes=20_000, activity=Decimal("0.2")
    )

    found = verdict(None, oversized=spell)

    assert found is not None
    assert (found.rule, found.from_at) == (WasteRule.OVERSIZED, END - timedelta(days=7))
    assert found.suggestion.share == Fraction(3, 7)
    assert found.suggestion.price_group == "H100/3g.40gb"


def test_what_would_serve_a_preemptible_pod_is_preemptible_too() -> None:
    spell = replace(
        BUSY, activity_p95=Decimal("0.25"), memory_p95_mebibytes=20_000, activity=Decimal("0.2")
    )

    found = verdict(None, tenure(price_group="H100/whole/burst"), oversized=spell)

    assert found is not None
    assert found.suggestion.price_group == "H100/3g.40gb/burst"


@pytest.mark.parametrize(
    "changed",
    [
        {"activity_p95": Decimal("0.3")},
        {"memory_p95_mebibytes": 30_000},
        {"memory_p95_mebibytes": None},
    ],
)
def test_a_week_with_a_need_is_not_oversized(changed: dict[str, object]) -> None:
    spell = replace(BUSY, activity_p95=Decimal("0.2"), memory_p95_mebibytes=20_000)

    assert verdict(None, oversized=replace(spell, **changed)) is None  # type: ignore[arg-type]


def test_devices_that_stand_beside_a_working_one_are_to_be_given_back() -> None:
    spell = replace(
        BUSY,
        devices=(Decimal("0.01"), Decimal("0.02"), Decimal("0.8"), Decimal("0.9")),
    )

    found = verdict(None, tenure(units=4), imbalanced=spell)

    assert found is not None
    assert found.suggestion == Suggestion(2, "large", "H100/whole", Fraction(1))


@pytest.mark.parametrize(
    "devices", [("0.5", "0.6"), ("0.001", "0.02"), ("0.9",), ()], ids=["even", "idle", "one", "no"]
)
def test_even_devices_have_no_imbalance(devices: tuple[str, ...]) -> None:
    spell = replace(BUSY, devices=tuple(Decimal(text) for text in devices))

    assert verdict(None, tenure(units=2), imbalanced=spell) is None


# ---------------------------------------------------------------- not running


def waiting(**fields: object) -> Tenure:
    return tenure(begin_at=END - timedelta(minutes=15), started_at=None, **fields)


def test_a_pod_bound_a_quarter_hour_ago_that_never_ran_is_reported() -> None:
    assert verdict(None, waiting()) == WasteVerdict(
        WasteRule.NOT_RUNNING, END - timedelta(minutes=15), NOTHING
    )


def test_sharing_is_no_excuse_for_not_running() -> None:
    found = verdict(None, waiting(sharing_mode=SharingMode.TIME_SLICING))

    assert found is not None
    assert found.rule is WasteRule.NOT_RUNNING


def test_a_source_that_does_not_tell_starts_accuses_nobody_of_not_running() -> None:
    assert verdict(None, waiting(is_start_known=False)) is None


def test_a_pod_bound_less_than_a_quarter_hour_ago_may_still_start() -> None:
    held = tenure(begin_at=END - timedelta(seconds=899), started_at=None)

    assert verdict(None, held) is None


# ---------------------------------------------------------------- who is never accused


def test_no_data_accuses_nobody() -> None:
    assert verdict(None) is None


def test_under_four_fifths_of_coverage_is_no_data() -> None:
    just = replace(SLEEPING, covered_seconds=2_880)

    assert verdict(None, idle=just) is not None
    assert verdict(None, idle=replace(just, covered_seconds=2_879)) is None


def test_coverage_is_counted_over_all_units() -> None:
    spell = replace(SLEEPING, covered_seconds=2_880)

    assert verdict(None, tenure(units=2), idle=spell) is None


def test_a_counter_that_power_contradicts_accuses_nobody() -> None:
    hot = replace(SLEEPING, power_milliwatts=150_001)

    assert verdict(hot) is None
    assert verdict(replace(hot, power_milliwatts=150_000)) is not None
    assert verdict(replace(hot, power_milliwatts=None)) is not None


def test_power_of_the_whole_gpu_says_nothing_about_one_instance() -> None:
    held = tenure(sharing_mode=SharingMode.MIG, share=Fraction(3, 7), price_group="H100/3g.40gb")

    found = verdict(replace(SLEEPING, power_milliwatts=600_000), held)

    assert found is not None
    assert found.rule is WasteRule.IDLE


@pytest.mark.parametrize("mode", [SharingMode.TIME_SLICING, SharingMode.MPS])
def test_tenants_of_a_shared_device_are_never_accused(mode: SharingMode) -> None:
    assert verdict(SLEEPING, tenure(sharing_mode=mode)) is None


def test_a_rule_waits_until_the_pod_was_there_all_its_time() -> None:
    held = tenure(begin_at=HOUR + timedelta(seconds=1))

    assert verdict(SLEEPING, held) is None


# ---------------------------------------------------------------- accounts


@pytest.mark.parametrize(
    ("suggestion", "suggested", "wasted"),
    [
        (NOTHING, 0, 7_200),
        (Suggestion(2, "large", "H100/whole", Fraction(1)), 7_200, 0),
        (Suggestion(1, "large", "H100/whole", Fraction(1)), 3_600, 3_600),
        (Suggestion(2, "medium", "H100/3g.40gb", Fraction(3, 7)), 7_200, 4_114),
    ],
)
def test_what_is_wasted_is_what_the_suggestion_does_not_take(
    suggestion: Suggestion, suggested: int, wasted: int
) -> None:
    account = waste_account(
        held_unit_seconds=7_200, units=2, share=Fraction(1), suggestion=suggestion
    )

    assert (account.suggested_unit_seconds, account.wasted_unit_seconds) == (suggested, wasted)


@given(
    held=st.integers(0, 10**9),
    units=st.integers(1, 16),
    fewer=st.integers(0, 16),
    slices=st.integers(1, 7),
    own=st.integers(1, 7),
)
def test_waste_is_never_negative_and_never_more_than_was_held(
    held: int, units: int, fewer: int, slices: int, own: int
) -> None:
    suggestion = Suggestion(min(units, fewer), "small", "H100/x", Fraction(slices, 7))

    account = waste_account(
        held_unit_seconds=held, units=units, share=Fraction(own, 7), suggestion=suggestion
    )

    assert 0 <= account.wasted_unit_seconds <= account.held_unit_seconds == held
    assert 0 <= account.suggested_unit_seconds <= held
