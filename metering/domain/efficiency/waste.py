"""Waste: findings about an allocation, and what would have been enough.

Missing data is never idle: there is no finding without enough measurements, where power contradicts
a counter that does not move, or on a device that several pods share.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from metering.domain.allocations.timeline import seconds_between
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.catalogue.units import SharingMode, like
from metering.domain.efficiency.rightsizing import Present, need_of, smaller_that_serves
from metering.domain.efficiency.rules import WasteRule, WasteThresholds, Work

SECONDS_PER_HOUR: Final = 3600
ACTIVITY_RULES: Final = tuple(rule for rule in WasteRule if rule is not WasteRule.NOT_RUNNING)
_EXCLUSIVE: Final = frozenset({SharingMode.WHOLE, SharingMode.MIG})
_ACTIVE_MIN: Final = Decimal("0.05")
"""A pod none of whose devices works has no imbalance."""


@dataclass(frozen=True)
class Tenure:
    """One allocation that was still held at the end of a window.

    Attributes:
        is_start_known: Whether its source reports when containers start.
        share: How much of a physical device one unit is.
    """

    begin_at: datetime
    started_at: datetime | None
    is_start_known: bool
    units: int
    size: str
    price_group: str
    sharing_mode: SharingMode
    product: str
    share: Fraction
    work: Work = Work.UNKNOWN


@dataclass(frozen=True)
class Spell:
    """What an allocation's own devices did over the time a rule looks back.

    Activity is that of the SMs where it is known of every device all the time, else how busy the
    devices were; the two are never mixed, because a device may be busy with few of its SMs.

    Attributes:
        covered_seconds: Device-seconds that were measured.
        activity: Mean over them, 0 to 1.
        activity_highest: Highest mean of an hour.
        activity_p95: 95th percentile of the hours' means.
        memory_peak_mebibytes: Highest of any device; None when it was not measured.
        memory_lowest_mebibytes: Lowest of the hours' peaks.
        memory_p95_mebibytes: 95th percentile of the hours' peaks.
        memory_total_mebibytes: What the smallest of its devices has.
        power_milliwatts: Highest mean of an hour.
        devices: Mean activity of each device.
    """

    covered_seconds: int
    activity: Decimal
    activity_highest: Decimal
    activity_p95: Decimal
    memory_peak_mebibytes: int | None = None
    memory_lowest_mebibytes: int | None = None
    memory_p95_mebibytes: int | None = None
    memory_total_mebibytes: int | None = None
    power_milliwatts: int | None = None
    devices: tuple[Decimal, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """What would have served; no units means giving it back."""

    units: int
    size: str
    price_group: str
    share: Fraction


@dataclass(frozen=True)
class WasteVerdict:
    """What an allocation is accused of, from when."""

    rule: WasteRule
    from_at: datetime
    suggestion: Suggestion
    activity: Decimal | None = None
    memory_peak_mebibytes: int | None = None


@dataclass(frozen=True)
class WasteAccount:
    """Unit-seconds held, those the suggestion takes of its own size, and those wasted."""

    held_unit_seconds: int
    suggested_unit_seconds: int
    wasted_unit_seconds: int


NOTHING: Final = Suggestion(units=0, size="", price_group="", share=Fraction(0))


def judge(
    tenure: Tenure,
    *,
    spells: Mapping[WasteRule, Spell],
    at: datetime,
    thresholds: WasteThresholds,
    catalogue: Catalogue,
) -> WasteVerdict | None:
    """Return the strongest thing an allocation is accused of, or None.

    Args:
        tenure: What is held.
        spells: What its devices did, by rule; a missing one is no data.
        at: End of the window.
        thresholds: From when each rule accuses.
        catalogue: The version in force; it gives a suggestion's size.
    """
    if _does_not_run(tenure, at=at, thresholds=thresholds):
        return WasteVerdict(WasteRule.NOT_RUNNING, tenure.begin_at, NOTHING)
    if tenure.sharing_mode not in _EXCLUSIVE:
        return None
    for rule in ACTIVITY_RULES:
        since = at - timedelta(hours=thresholds.hours_of(rule))
        spell = spells.get(rule)
        if spell is None or tenure.begin_at > since:
            continue
        seconds = tenure.units * seconds_between(since, at)
        if not _is_believable(spell, tenure=tenure, seconds=seconds, thresholds=thresholds):
            continue
        if _breaks(rule, spell, work=tenure.work, thresholds=thresholds):
            return WasteVerdict(
                rule=rule,
                from_at=since,
                suggestion=_suggest(
                    rule, tenure, spell=spell, thresholds=thresholds, catalogue=catalogue
                ),
                activity=spell.activity,
                memory_peak_mebibytes=spell.memory_peak_mebibytes,
            )
    return None


def rules_asked(thresholds: WasteThresholds, *, is_daily: bool) -> tuple[WasteRule, ...]:
    """Return the rules about activity that a window judges: daily ones once a day only."""
    return tuple(rule for rule in ACTIVITY_RULES if is_daily or not thresholds.is_daily(rule))


def waits_for_its_day(
    rule: WasteRule, *, asked: Collection[WasteRule], verdict: WasteVerdict | None
) -> bool:
    """Whether the finding of a pod stays until its rule is judged again.

    Only while the pod has no stronger finding: a weaker one never replaces it.
    """
    if rule in asked or rule not in ACTIVITY_RULES:
        return False
    order = list(WasteRule)
    return verdict is None or order.index(rule) < order.index(verdict.rule)


def waste_account(
    *, held_unit_seconds: int, units: int, share: Fraction, suggestion: Suggestion
) -> WasteAccount:
    """Return what was wasted of what was held, rounded down; never more than was held.

    Args:
        held_unit_seconds: Units x seconds of the present size.
        units: Units held.
        share: How much of a device one of them is.
        suggestion: What would have served.
    """
    part = min(Fraction(1), suggestion.units * suggestion.share / (units * share))
    return WasteAccount(
        held_unit_seconds=held_unit_seconds,
        suggested_unit_seconds=held_unit_seconds * suggestion.units // units,
        wasted_unit_seconds=held_unit_seconds - -(-held_unit_seconds * part // 1),
    )


def _does_not_run(tenure: Tenure, *, at: datetime, thresholds: WasteThresholds) -> bool:
    waited = seconds_between(tenure.begin_at, at)
    is_waiting = tenure.is_start_known and tenure.started_at is None
    return is_waiting and waited >= 60 * thresholds.not_running_minutes


def _is_believable(
    spell: Spell, *, tenure: Tenure, seconds: int, thresholds: WasteThresholds
) -> bool:
    """Whether enough was measured, and power does not contradict it.

    Power is the whole GPU's, so it does not apply to one instance of several.
    """
    if spell.covered_seconds < thresholds.coverage_ratio_min * seconds:
        return False
    is_whole = tenure.sharing_mode is SharingMode.WHOLE
    watts = thresholds.contradicting_watts
    is_contradicted = (
        is_whole
        and spell.activity == 0
        and spell.power_milliwatts is not None
        and spell.power_milliwatts > 1000 * watts
    )
    return not is_contradicted


def _breaks(rule: WasteRule, spell: Spell, *, work: Work, thresholds: WasteThresholds) -> bool:
    if rule is WasteRule.IDLE:
        peak = spell.memory_peak_mebibytes
        is_empty = peak is not None and peak < thresholds.idle_memory_mebibytes
        return is_empty and spell.activity < thresholds.idle_activity_ratio
    if rule is WasteRule.MEMORY_PARKED:
        lowest = _memory_ratio(spell, spell.memory_lowest_mebibytes)
        is_parked = lowest is not None and lowest > Fraction(thresholds.parked_memory_ratio)
        return is_parked and spell.activity_highest < thresholds.parked_activity_ratio
    if rule is WasteRule.IMBALANCED:
        return 0 < _idle_devices(spell, thresholds=thresholds) < len(spell.devices)
    if rule is WasteRule.LOW_USE:
        return spell.activity_highest < thresholds.low_use_activity_ratio
    if rule is WasteRule.LOW_USE_DAY:
        ratio = thresholds.activity_ratio_of(work)
        return ratio is not None and spell.activity < ratio
    return _is_oversized(spell, thresholds=thresholds)


def _is_oversized(spell: Spell, *, thresholds: WasteThresholds) -> bool:
    p95 = _memory_ratio(spell, spell.memory_p95_mebibytes)
    is_small = p95 is not None and p95 < Fraction(thresholds.oversized_memory_ratio)
    return is_small and spell.activity_p95 < thresholds.oversized_activity_ratio


def _memory_ratio(spell: Spell, used: int | None) -> Fraction | None:
    total = spell.memory_total_mebibytes
    return Fraction(used, total) if used is not None and total else None


def _idle_devices(spell: Spell, *, thresholds: WasteThresholds) -> int:
    highest = max(spell.devices, default=Decimal(0))
    if highest < _ACTIVE_MIN:
        return 0
    return sum(device < thresholds.imbalanced_ratio * highest for device in spell.devices)


def _suggest(
    rule: WasteRule,
    tenure: Tenure,
    *,
    spell: Spell,
    thresholds: WasteThresholds,
    catalogue: Catalogue,
) -> Suggestion:
    """Return what would have served; the present holding itself where nothing smaller does."""
    if rule is WasteRule.IDLE:
        return NOTHING
    kept = Suggestion(tenure.units, tenure.size, tenure.price_group, tenure.share)
    if rule is WasteRule.IMBALANCED:
        working = tenure.units - _idle_devices(spell, thresholds=thresholds)
        return Suggestion(max(1, working), tenure.size, tenure.price_group, tenure.share)
    is_long = rule is WasteRule.OVERSIZED
    memory = spell.memory_p95_mebibytes if is_long else spell.memory_peak_mebibytes
    if memory is None:
        return kept
    need = need_of(
        memory_mebibytes=memory,
        activity=spell.activity_p95 if is_long else spell.activity_highest,
        share=tenure.share,
        headroom=thresholds.headroom_ratio,
    )
    present = Present(tenure.product, tenure.share, spell.memory_total_mebibytes)
    found = smaller_that_serves(present, need=need, catalogue=catalogue)
    if found is None:
        return kept
    group = like(tenure.price_group, other=found.price_group)
    return Suggestion(tenure.units, found.size.value, group, found.share)
