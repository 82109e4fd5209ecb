"""Waste that is judged once a day: when, what stands meanwhile, and never twice."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.efficiency.rules import thresholds_of
from metering.models import MeteringWindow, PodAllocation, WasteFinding
from metering.services.efficiency.deriving import Derived, derive_windows
from metering.services.efficiency.waste import dismiss_finding
from tests.support.metering.waste_world import (
    BUSY,
    DAY,
    HOUR,
    IDLE,
    TICK,
    WasteWorld,
    make_waste_world,
    seal,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

NIGHT = DAY + timedelta(days=1)
SMALL = {"memory_used_peak_mebibytes": 7_000}
LITTLE = Decimal("0.25")
"""More than the common rule allows, less than a batch job's day and an oversized week."""
THRESHOLDS = thresholds_of({"oversized_hours": 24})
"""The week's rule over a day, so that a day of hours shows it."""


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100 for two days."""
    made = make_waste_world()
    made.hold(begin_at=DAY - timedelta(days=2))
    return made


def derive() -> Derived:
    derived = derive_windows(actor=TICK, at=NIGHT + timedelta(days=9), thresholds=THRESHOLDS)
    assert derived is not None
    return derived


def live(
    world: WasteWorld,
    hours: range,
    activity: Decimal = LITTLE,
    **fields: object,
) -> list[MeteringWindow]:
    """Let every pod hold on through hours, all devices alike, and derive them."""
    windows = [world.hour(hour, activity, **{**SMALL, **fields}) for hour in hours]
    derive()
    return windows


def reported() -> list[tuple[str, str, int, int]]:
    """Return rule, state, first and last hour of each finding, in the order they began."""
    rows = WasteFinding.objects.order_by("from_at", "pk")
    return [
        (row.rule, row.state, (row.from_at - DAY) // HOUR, (row.until_at - DAY) // HOUR)
        for row in rows
    ]


def test_a_long_rule_is_judged_by_the_first_hour_of_a_day(world: WasteWorld) -> None:
    live(world, range(24))
    assert reported() == []

    live(world, range(24, 25))

    assert reported() == [("oversized", "open", 1, 25)]
    assert WasteFinding.objects.get().held_unit_seconds == 24 * 3600


def test_until_the_next_day_it_stands_as_it_was(world: WasteWorld) -> None:
    live(world, range(25))
    before = WasteFinding.objects.values_list().get()

    live(world, range(25, 48))

    assert WasteFinding.objects.values_list().get() == before


def test_the_next_day_adds_what_was_held_meanwhile(world: WasteWorld) -> None:
    live(world, range(49))

    assert reported() == [("oversized", "open", 1, 49)]
    assert WasteFinding.objects.get().held_unit_seconds == 48 * 3600


def test_a_better_day_closes_it_where_it_was_last_seen(world: WasteWorld) -> None:
    live(world, range(25))
    live(world, range(25, 49), BUSY)

    assert reported() == [("oversized", "closed", 1, 25)]


def test_a_stronger_word_ends_it_at_once_and_no_hour_counts_twice(world: WasteWorld) -> None:
    live(world, range(25))
    live(world, range(25, 26), IDLE, memory_used_peak_mebibytes=4)

    assert reported() == [("oversized", "closed", 1, 25), ("idle", "open", 25, 26)]
    held = WasteFinding.objects.values_list("held_unit_seconds", flat=True).order_by("from_at")
    assert list(held) == [24 * 3600, 3600]


def test_a_pod_that_is_gone_is_not_waited_for(world: WasteWorld) -> None:
    live(world, range(25))
    window = world.window(25)
    world.use(window, world.held[0], until=60)
    seal(window)
    derive()

    assert reported() == [("oversized", "closed", 1, 25)]


def test_another_pods_hour_does_not_close_it(world: WasteWorld) -> None:
    live(world, range(25))
    world.hold("busy-0")
    live(world, range(25, 27))

    assert reported() == [("oversized", "open", 1, 25)]


def test_when_the_first_hour_is_late_the_next_one_judges_the_day(world: WasteWorld) -> None:
    live(world, range(24))
    late = world.window(24)
    world.use(late, world.held[0])
    world.measure(late, world.held[0], LITTLE, **SMALL)

    live(world, range(25, 26))
    assert reported() == [("oversized", "open", 2, 26)]
    assert WasteFinding.objects.get().held_unit_seconds == 23 * 3600

    seal(late)
    assert derive() == Derived(windows=1)
    assert reported() == [("oversized", "open", 2, 26)]


def test_a_day_is_judged_once_however_often_it_is_asked_for(world: WasteWorld) -> None:
    live(world, range(25))
    before = WasteFinding.objects.values_list().get()

    assert derive() == Derived()
    assert derive() == Derived()

    assert WasteFinding.objects.values_list().get() == before


def test_what_was_dismissed_is_not_said_again_the_next_day(world: WasteWorld) -> None:
    live(world, range(25))
    dismiss_finding(
        finding_id=WasteFinding.objects.get().pk, reason="Bursts.", actor=TICK, at=NIGHT
    )

    live(world, range(25, 49))

    assert reported() == [("oversized", "dismissed", 1, 25)]


def test_hours_between_ask_less_than_the_first_of_a_day(world: WasteWorld) -> None:
    live(world, range(24))

    def device_reads(hour: int) -> int:
        world.hour(hour, LITTLE, **SMALL)
        with CaptureQueriesContext(connection) as captured:
            derive()
        return sum("WITH ORDINALITY" in query["sql"] for query in captured)

    assert [device_reads(24), device_reads(25), device_reads(26)] == [4, 3, 3]


# ---------------------------------------------------------------- kinds of work


def held_by(world: WasteWorld, controller: str) -> PodAllocation:
    world.held.clear()
    return world.hold("worker-0", controller=controller, begin_at=DAY - timedelta(days=2))


@pytest.mark.parametrize(
    ("controller", "activity", "rules"),
    [
        ("Job/train", "0.299999", ["low_use_day"]),
        ("Job/train", "0.3", []),
        ("StatefulSet/lab", "0.299999", []),
        ("ReplicaSet/serve", "0.299999", []),
        ("", "0.299999", []),
    ],
)
def test_a_days_mean_is_judged_by_the_kind_of_work(
    world: WasteWorld, controller: str, activity: str, rules: list[str]
) -> None:
    held_by(world, controller)
    full = {"memory_used_peak_mebibytes": 60_000}

    live(world, range(25), Decimal(activity), **full)

    assert [rule for rule, *_ in reported()] == rules


def test_a_notebook_with_one_busy_hour_of_a_day_is_little_used(world: WasteWorld) -> None:
    held_by(world, "Notebook/carol")
    for hour in range(25):
        is_busy = hour % 4 == 0
        world.hour(
            hour,
            Decimal("0.3") if is_busy else Decimal("0.02"),
            memory_used_peak_mebibytes=30_000,
        )
    derive()

    assert reported() == [("low_use_day", "open", 1, 25)]
    found = WasteFinding.objects.get()
    assert found.activity_ratio == Decimal("0.09")
    assert found.suggested_price_group == "H100/3g.40gb"


def test_the_same_day_of_unknown_work_accuses_nobody(world: WasteWorld) -> None:
    held_by(world, "ReplicaSet/serve")
    for hour in range(25):
        is_busy = hour % 4 == 0
        world.hour(
            hour,
            Decimal("0.3") if is_busy else Decimal("0.02"),
            memory_used_peak_mebibytes=30_000,
        )
    derive()

    assert reported() == []
