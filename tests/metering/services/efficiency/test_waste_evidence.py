"""What waste is judged by: the sum over revisions, and SM activity before busy time."""

from decimal import Decimal
from typing import Any

import pytest

from metering.models import PodAllocation, WasteFinding
from metering.services.efficiency.deriving import Derived
from tests.support.metering.waste_world import (
    BUSY,
    DAY,
    HOUR,
    IDLE,
    WasteWorld,
    add_late,
    correct,
    derive,
    make_waste_world,
    seal,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

ALL = Decimal(1)


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100 for a day."""
    made = make_waste_world()
    made.hold()
    return made


@pytest.fixture
def trainer(world: WasteWorld) -> PodAllocation:
    """The pod on it."""
    return world.held[0]


def rules() -> list[str]:
    return list(WasteFinding.objects.order_by("from_at").values_list("rule", flat=True))


# ---------------------------------------------------------------- revisions


def test_use_that_was_retracted_accuses_nobody(world: WasteWorld, trainer: PodAllocation) -> None:
    correct(world.hour(0, IDLE), trainer, None)

    assert derive() == Derived(windows=1)
    assert rules() == []


def test_what_corrections_took_back_was_not_held(world: WasteWorld, trainer: PodAllocation) -> None:
    correct(world.hour(0, IDLE), trainer, -600)

    derive()

    found = WasteFinding.objects.get()
    assert (found.held_unit_seconds, found.wasted_unit_seconds) == (3000, 3000)


def test_use_that_was_reported_late_is_judged(world: WasteWorld, trainer: PodAllocation) -> None:
    window = world.window(0)
    world.measure(window, trainer, IDLE)
    seal(window)
    add_late(window, trainer, 3600)

    assert derive() == Derived(windows=1, findings=1)
    assert WasteFinding.objects.get().held_unit_seconds == 3600


def test_an_end_that_was_reported_late_leaves_no_holder(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    add_late(world.hour(0, IDLE), trainer, 900, instead_of=3600)

    assert derive() == Derived(windows=1)


def test_a_finding_that_goes_on_adds_the_sum_of_the_sealed_hours_since(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    world.hour(0, IDLE)
    derive()
    late = world.window(1)
    world.use(late, trainer)
    correct(world.hour(2, IDLE), trainer, -1600)

    derive()

    found = WasteFinding.objects.get()
    assert (found.until_at, found.held_unit_seconds) == (DAY + 3 * HOUR, 3600 + 2000)


# ---------------------------------------------------------------- SM activity


def sm(ratio: str | None, busy: str | None = "0.9", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Columns.
    """Return the columns of a device with both figures, and little memory."""
    return {
        "busy_ratio": None if busy is None else Decimal(busy),
        "busy_coverage": None if busy is None else ALL,
        "sm_active_ratio": None if ratio is None else Decimal(ratio),
        "sm_active_coverage": None if ratio is None else ALL,
        "memory_used_peak_mebibytes": 7_000,
        **fields,
    }


def test_a_busy_gpu_with_hardly_an_sm_at_work_is_little_used(world: WasteWorld) -> None:
    for hour in range(4):
        world.hour(hour, BUSY, **sm("0.05"))

    derive()

    assert rules() == ["low_use"]
    assert WasteFinding.objects.get().activity_ratio == Decimal("0.05")


def test_an_active_gpu_is_not_accused_by_its_busy_time(world: WasteWorld) -> None:
    for hour in range(4):
        world.hour(hour, BUSY, **sm("0.6", busy="0.01"))

    derive()

    assert rules() == []


def test_busy_time_judges_where_an_hour_of_sm_activity_is_missing(world: WasteWorld) -> None:
    for hour in range(3):
        world.hour(hour, BUSY, **sm("0.05"))
    world.hour(3, BUSY, **sm(None))

    derive()

    assert rules() == []


def test_an_hour_with_neither_figure_leaves_sm_activity_in_force(world: WasteWorld) -> None:
    for hour in (0, 1, 2, 3):
        world.hour(hour, BUSY, **sm("0.05"))
    window = world.window(4)
    world.use(window, world.held[0])
    world.measure(window, world.held[0], **sm(None, busy=None, seconds=3599))
    seal(window)

    derive()

    assert list(WasteFinding.objects.values_list("rule", "state")) == [("low_use", "closed")]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (sm("0.02", busy="0.9"), sm("0.9", busy="0.9"), ["imbalanced"]),
        (sm("0.02", busy="0.9"), sm(None, busy="0.9"), []),
        (sm(None, busy="0.02"), sm("0.9", busy="0.9"), ["imbalanced"]),
    ],
    ids=["both by SMs", "one by SMs", "busy of both"],
)
def test_devices_of_one_pod_are_never_judged_by_different_figures(
    world: WasteWorld, first: dict[str, Any], second: dict[str, Any], expected: list[str]
) -> None:
    world.held.clear()
    pod = world.hold("pair-0", units=2)
    window = world.window(0)
    world.use(window, pod)
    world.measure(window, pod, **{"uuid": "GPU-a", **first})
    world.measure(window, pod, **{"uuid": "GPU-b", **second})
    seal(window)

    derive()

    assert rules() == expected


@pytest.mark.parametrize(
    ("busy", "expected"), [("0.05", []), ("0.049999", ["idle"]), (None, ["idle"])]
)
def test_an_sm_counter_at_nothing_on_a_busy_gpu_is_stuck(
    world: WasteWorld, busy: str | None, expected: list[str]
) -> None:
    world.hour(0, IDLE, **sm("0", busy=busy, memory_used_peak_mebibytes=4))

    derive()

    assert rules() == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"sm_active_coverage": Decimal("0.79999")},
        {"is_busy_uncertain": True},
        {"power_mean_milliwatts": 150_001},
        {"attribution": "shared"},
    ],
    ids=["coverage", "doubtful", "power", "shared"],
)
def test_unsound_sm_activity_accuses_nobody(world: WasteWorld, fields: dict[str, Any]) -> None:
    world.hour(0, IDLE, **sm("0", busy="0", memory_used_peak_mebibytes=4, **fields))

    assert derive() == Derived(windows=1)
    assert rules() == []
