"""Device events: changes are reported, levels are not, and whose matter each is."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.devices.error_tables import (
    ECC_VOLATILE,
    HEALTH_STATUS,
    NVLINK_CRC,
    NVLINK_RECOVERY,
    POWER_VIOLATION,
    RETIRED_PAGES,
    ROW_REMAP_FAILURE,
    ROWS_UNCORRECTABLE,
    THERMAL_VIOLATION,
    XID_COUNT,
    XID_ERRORS,
    EventKind,
    EventSeverity,
    severity_of_xid,
)
from metering.domain.devices.events import (
    DeviceEventFact,
    DeviceObservations,
    LevelKey,
    device_events,
)
from metering.protocols.health import HealthRun, HealthSignal

GPU = "GPU-1"
STEP = 30
HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)


def moment(seconds: int) -> datetime:
    """Return a second of the hour."""
    return HOUR + timedelta(seconds=seconds)


def signal(metric: str, *runs: tuple[int, int, int], code: str = "", **place: str) -> HealthSignal:
    """Return a signal of runs given as value, first and last second of the hour."""
    return HealthSignal(
        uuid=place.get("uuid", GPU),
        node="node-1",
        instance_id=place.get("instance_id", ""),
        instance_profile="",
        metric=metric,
        code=code,
        runs=tuple(HealthRun(Decimal(v), moment(first), moment(last)) for v, first, last in runs),
    )


def observation(
    *,
    seen: tuple[tuple[int, int], ...] = ((-60, 3660),),
    known: dict[LevelKey, Decimal] | None = None,
) -> DeviceObservations:
    """Return the eyes of the hour, by default open all the time."""
    return DeviceObservations(
        start_at=HOUR,
        end_at=moment(3600),
        step_seconds=STEP,
        seen={GPU: tuple((moment(begin), moment(end)) for begin, end in seen)},
        known=known or {},
    )


def reported(
    *signals: HealthSignal, eyes: DeviceObservations | None = None
) -> list[tuple[str, str, str, int]]:
    """Return kind, code, severity and second of the hour of each event."""
    return [
        (event.kind.value, event.code, event.severity.value, second(event.begin_at))
        for event in device_events(signals, observed=eyes or observation())
    ]


def second(at: datetime) -> int:
    return (at - HOUR) // timedelta(seconds=1)


@pytest.mark.parametrize(
    ("xid", "severity"),
    [
        *((xid, EventSeverity.FAIL) for xid in (48, 64, 74, 79, 95, 119, 120, 140)),
        *((xid, EventSeverity.APPLICATION) for xid in (13, 31, 43, 45)),
        *((xid, EventSeverity.WARN) for xid in (32, 38, 39, 42, 54, 56, 57, 58, 60, 61, 62)),
        *((xid, EventSeverity.WARN) for xid in (63, 78, 94, 999)),
    ],
)
def test_an_xid_means_what_the_tables_say(xid: int, severity: EventSeverity) -> None:
    assert severity_of_xid(xid) is severity


# ---------------------------------------------------------------- the last XID


def test_an_xid_that_appears_is_reported_at_its_first_observation() -> None:
    assert reported(signal(XID_ERRORS, (95, 600, 3660))) == [("xid", "95", "fail", 600)]


def test_an_xid_that_stands_since_before_the_hour_is_not_reported_again() -> None:
    assert reported(signal(XID_ERRORS, (95, -60, 3660))) == []


def test_an_xid_first_seen_after_the_hour_belongs_to_the_next() -> None:
    assert reported(signal(XID_ERRORS, (95, 3600, 3660))) == []


def test_another_xid_is_another_change() -> None:
    found = device_events(
        [signal(XID_ERRORS, (13, -60, 570), (79, 600, 3660))], observed=observation()
    )

    assert [(event.code, event.before, event.after) for event in found] == [
        ("79", Decimal(13), Decimal(79))
    ]


def test_the_same_xid_after_a_hole_is_no_change() -> None:
    assert reported(signal(XID_ERRORS, (48, -60, 600), (48, 1800, 3660))) == []


def test_an_old_xid_that_comes_back_with_the_scrapes_is_known_already() -> None:
    blind = observation(seen=((1800, 3660),), known={(GPU, "", XID_ERRORS): Decimal(48)})

    assert reported(signal(XID_ERRORS, (48, 1800, 3660)), eyes=blind) == []


def test_an_xid_that_nobody_knew_is_reported_although_its_begin_was_not_seen() -> None:
    blind = observation(seen=((1800, 3660),))

    (event,) = device_events([signal(XID_ERRORS, (48, 1800, 3660))], observed=blind)

    assert (event.before, event.after, event.end_at) == (None, Decimal(48), None)


def test_a_device_that_nobody_else_reported_of_is_judged_by_what_is_known() -> None:
    eyes = observation(known={("GPU-9", "", XID_ERRORS): Decimal(31)})

    assert reported(signal(XID_ERRORS, (31, 60, 90), uuid="GPU-9"), eyes=eyes) == []
    assert reported(signal(XID_ERRORS, (79, 60, 90), uuid="GPU-9"), eyes=eyes) == [
        ("xid", "79", "fail", 60)
    ]


# ---------------------------------------------------------------- counted XIDs


def test_a_counted_xid_is_reported_when_its_count_rises_not_when_it_falls() -> None:
    counted = signal(XID_COUNT, (1, 600, 690), (2, 1500, 1600), (1, 1700, 1900), code="94")

    assert reported(counted) == [("xid", "94", "warn", 600), ("xid", "94", "warn", 1500)]


def test_a_count_without_an_xid_says_nothing() -> None:
    assert reported(signal(XID_COUNT, (1, 600, 690)), signal(XID_COUNT, (1, 1, 2), code="²")) == []


def test_gauge_and_count_of_one_xid_are_one_event() -> None:
    both = (signal(XID_ERRORS, (79, 630, 3660)), signal(XID_COUNT, (1, 600, 900), code="79"))

    assert reported(*both) == [("xid", "79", "fail", 600)]


def test_the_same_xid_on_another_device_is_another_event() -> None:
    found = reported(
        signal(XID_COUNT, (1, 600, 900), code="79"),
        signal(XID_COUNT, (1, 600, 900), code="79", instance_id="9"),
        signal(XID_COUNT, (1, 600, 900), code="79", uuid="GPU-2"),
    )

    assert found == [("xid", "79", "fail", 600)] * 3


# ---------------------------------------------------------------- counters


@pytest.mark.parametrize(
    ("metric", "run", "expected"),
    [
        (ECC_VOLATILE, (1, 60, 90), ("ecc", "double_bit", "fail", 60)),
        (RETIRED_PAGES, (15, 60, 90), ("ecc", "retired_pages", "warn", 60)),
        (RETIRED_PAGES, (64, 60, 90), ("ecc", "retired_pages", "fail", 60)),
        (ROWS_UNCORRECTABLE, (1, 60, 90), ("row_remap", "uncorrectable_rows", "warn", 60)),
        (ROWS_UNCORRECTABLE, (512, 60, 90), ("row_remap", "uncorrectable_rows", "fail", 60)),
        (ROW_REMAP_FAILURE, (1, 60, 90), ("row_remap", "remap_failure", "fail", 60)),
        (NVLINK_RECOVERY, (1, 60, 90), ("nvlink", "recovery", "fail", 60)),
        (NVLINK_CRC, (3_000, 60, 90), ("nvlink", "crc", "fail", 60)),
    ],
)
def test_a_counter_that_rises_means_what_the_tables_say(
    metric: str, run: tuple[int, int, int], expected: tuple[str, str, str, int]
) -> None:
    assert reported(signal(metric, run)) == [expected]


@pytest.mark.parametrize(
    ("metric", "run"), [(RETIRED_PAGES, (14, 60, 90)), (NVLINK_CRC, (2_999, 60, 90))]
)
def test_a_counter_below_its_limit_says_nothing(metric: str, run: tuple[int, int, int]) -> None:
    assert reported(signal(metric, run)) == []


def test_a_rate_is_counted_over_the_time_between_two_observations() -> None:
    slow = signal(NVLINK_CRC, (100, -60, 0), (6_000, 60, 90))
    fast = signal(NVLINK_CRC, (100, -60, 0), (6_101, 60, 90))

    assert reported(slow) == []
    assert reported(fast) == [("nvlink", "crc", "fail", 60)]


def test_a_counter_that_began_anew_counts_from_zero() -> None:
    found = device_events(
        [signal(ECC_VOLATILE, (5, -60, 300), (2, 330, 900))], observed=observation()
    )

    assert [(event.before, event.after) for event in found] == [(Decimal(5), Decimal(2))]


def test_a_metric_that_no_table_knows_is_left_out() -> None:
    assert reported(signal("DCGM_FI_DEV_SM_CLOCK", (1980, 60, 90))) == []


# ---------------------------------------------------------------- levels that last


def test_a_failed_health_status_lasts_until_its_last_observation() -> None:
    (event,) = device_events(
        [signal(HEALTH_STATUS, (20, 600, 1170), code="MEM")], observed=observation()
    )

    assert (event.kind, event.code, event.severity) == (EventKind.HEALTH, "MEM", EventSeverity.FAIL)
    assert (event.begin_at, event.end_at) == (moment(600), moment(1200))
    assert not event.is_continued


@pytest.mark.parametrize("run", [(20, 600, 840), (5, 600, 3000), (20, -900, -60), (20, 3600, 4200)])
def test_a_status_too_short_too_low_or_elsewhere_says_nothing(run: tuple[int, int, int]) -> None:
    assert reported(signal(HEALTH_STATUS, run)) == []


def test_a_status_that_stands_over_the_hour_is_cut_and_goes_on() -> None:
    (event,) = device_events([signal(HEALTH_STATUS, (10, -60, 3660))], observed=observation())

    assert (event.begin_at, event.end_at) == (HOUR, moment(3600))
    assert (event.code, event.severity, event.is_continued) == ("ALL", EventSeverity.WARN, True)


def violation(metric: str, *percent: int) -> HealthSignal:
    """Return a counter that grew by so many percent of each minute of the hour."""
    total, runs = 1, [(1, 0, 0)]
    for minute, share in enumerate(percent, start=1):
        total += share * 600_000_000
        runs.append((total, 60 * minute, 60 * minute))
    return signal(metric, *runs)


def test_clocks_held_down_for_ten_minutes_are_reported() -> None:
    held = violation(POWER_VIOLATION, 0, *[6] * 10, 0)

    (event,) = device_events([held], observed=observation())

    assert (event.kind, event.code) == (EventKind.THROTTLE, "power")
    assert (event.begin_at, event.end_at) == (moment(60), moment(660))
    assert event.severity is EventSeverity.WARN


@pytest.mark.parametrize("percent", [[6] * 9, [5] * 20, [6, 6, 6, 6, 6, 0, 6, 6, 6, 6, 6]])
def test_clocks_held_down_for_less_say_nothing(percent: list[int]) -> None:
    assert reported(violation(THERMAL_VIOLATION, *percent)) == []


def test_one_sample_of_a_violation_says_nothing() -> None:
    assert reported(violation(THERMAL_VIOLATION)) == []


# ---------------------------------------------------------------- properties

RUNS = st.lists(st.tuples(st.integers(1, 140), st.integers(1, 40)), min_size=1, max_size=8)


@given(runs=RUNS, start=st.integers(-40, 60))
def test_events_lie_in_the_window_and_two_windows_tell_of_a_change_once(
    runs: list[tuple[int, int]], start: int
) -> None:
    spans, at = [], start * STEP
    for value, steps in runs:
        spans.append((value, at, at + steps * STEP))
        at += (steps + 1) * STEP
    gauge = signal(XID_ERRORS, *spans)
    second_hour = DeviceObservations(moment(3600), moment(7200), STEP, observation().seen, {})

    first = device_events([gauge], observed=observation())
    second = device_events([gauge], observed=second_hour)

    assert all(HOUR <= event.begin_at < moment(3600) for event in first)
    keys = [(event.code, event.begin_at) for event in (*first, *second)]
    assert len(set(keys)) == len(keys)
    assert _order(first) == sorted(_order(first))


def _order(events: tuple[DeviceEventFact, ...]) -> list[tuple[str, datetime]]:
    return [(event.code, event.begin_at) for event in events]
