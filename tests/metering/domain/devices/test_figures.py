"""Devices tell about a pod only where they served it alone, and only when they were sampled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import SharingMode
from metering.domain.devices.figures import NOTHING_KNOWN, Activity, PodDeviceUse, activities

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)

END = HOUR + timedelta(hours=1)


def at(seconds: int) -> datetime:
    return HOUR + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Device:
    instance_id: str = ""
    namespace: str = "team"
    pod: str = "train-0"
    begin_at: datetime = HOUR
    end_at: datetime = END
    busy_ratio: Decimal | None = Decimal("0.5")
    samples: int = 120
    expected_samples: int = 120
    energy_millijoules: int | None = 1_000
    is_busy_uncertain: bool = False
    is_shared: bool = False


def holding(begin: int = 0, end: int = 3600, units: int = 1, **fields: object) -> PodDeviceUse:
    return PodDeviceUse(
        **{  # type: ignore[arg-type]
            "namespace": "team",
            "pod_name": "train-0",
            "sharing_mode": SharingMode.WHOLE,
            "begin_at": at(begin),
            "end_at": at(end),
            "unit_seconds": units * (end - begin),
            **fields,
        }
    )


def known(holdings: Sequence[PodDeviceUse], *devices: Device) -> tuple[Activity, ...]:
    energies = [device.energy_millijoules for device in devices]
    return activities(holdings, devices=devices, energies=energies)


def activity(held: PodDeviceUse, *devices: Device) -> Activity:
    [found] = known([held], *devices)
    return found


def test_a_whole_gpu_shows_busy_time_and_energy() -> None:
    assert activity(holding(), Device()) == Activity(Decimal("0.500000"), Decimal("1.00000"), 1_000)


def test_two_gpus_are_weighted_by_the_time_they_were_seen() -> None:
    quarter = Device(end_at=at(900), busy_ratio=Decimal(1), samples=30, expected_samples=30)
    rest = replace(quarter, begin_at=at(900), end_at=at(3600), busy_ratio=Decimal("0.2"))

    found = activity(holding(), quarter, replace(rest, samples=90, expected_samples=90))

    assert found == Activity(Decimal("0.400000"), Decimal("1.00000"), 2_000)


def test_a_mig_instance_shows_busy_time_and_its_own_part_of_the_energy() -> None:
    held = holding(sharing_mode=SharingMode.MIG)

    found = activity(held, Device(instance_id="9", energy_millijoules=300))

    assert found == Activity(Decimal("0.500000"), Decimal("1.00000"), 300)


def test_activity_in_doubt_is_no_activity() -> None:
    found = activity(holding(), Device(busy_ratio=Decimal(0), is_busy_uncertain=True))

    assert found == Activity(None, Decimal("0.00000"), 1_000)


def test_a_claim_that_several_pods_share_shows_nothing_of_one_of_them() -> None:
    assert activity(holding(split_among=2), Device()) == NOTHING_KNOWN


@pytest.mark.parametrize("mode", [SharingMode.TIME_SLICING, SharingMode.MPS])
def test_a_shared_device_shows_nothing(mode: SharingMode) -> None:
    assert activity(holding(sharing_mode=mode), Device()) == NOTHING_KNOWN


@pytest.mark.parametrize(
    "other",
    [
        Device(namespace="other"),
        Device(pod="train-1"),
        Device(instance_id="3"),
        Device(begin_at=at(-3600), end_at=at(0)),
        Device(namespace="", pod=""),
        Device(is_shared=True),
    ],
)
def test_a_device_of_somebody_else_shows_nothing(other: Device) -> None:
    assert activity(holding(), other) == NOTHING_KNOWN


def test_a_device_that_overlaps_two_pods_of_one_name_is_given_to_neither() -> None:
    first, second = holding(0, 1800), holding(1800, 3600)

    assert known([first, second], Device()) == (NOTHING_KNOWN, NOTHING_KNOWN)


def test_a_device_seen_within_one_of_two_pods_of_one_name_is_given_to_that() -> None:
    first, second = holding(0, 1800), holding(1800, 3600)

    early = Device(end_at=at(1800), samples=60, expected_samples=60)

    assert known([first, second], early) == (
        Activity(Decimal("0.500000"), Decimal("1.00000"), 1_000),
        NOTHING_KNOWN,
    )


@pytest.mark.parametrize(
    ("samples", "busy", "coverage"),
    [
        (96, Decimal("0.500000"), Decimal("0.80000")),
        (95, None, Decimal("0.79166")),
        (0, None, Decimal("0.00000")),
        (240, Decimal("0.500000"), Decimal("1.00000")),
    ],
)
def test_under_four_fifths_of_the_samples_there_is_no_ratio(
    samples: int, busy: Decimal | None, coverage: Decimal
) -> None:
    found = activity(holding(), Device(samples=samples))

    assert (found.busy_ratio, found.coverage) == (busy, coverage)


def test_half_of_a_pods_gpus_are_not_enough() -> None:
    found = activity(holding(units=2), Device())

    assert found == Activity(None, Decimal("0.50000"), None)


def test_a_device_without_a_busy_series_is_not_idle() -> None:
    found = activity(holding(), Device(busy_ratio=None))

    assert found == Activity(None, Decimal("0.00000"), 1_000)


def test_a_device_that_expected_no_samples_covers_nothing() -> None:
    found = activity(holding(), Device(samples=0, expected_samples=0))

    assert (found.busy_ratio, found.coverage) == (None, Decimal("0.00000"))


def test_one_unknown_energy_makes_the_sum_unknown() -> None:
    found = activity(holding(units=2), Device(), Device(energy_millijoules=None))

    assert found.energy_millijoules is None


@given(
    st.lists(
        st.builds(
            Device,
            busy_ratio=st.decimals(0, 1, places=6) | st.none(),
            samples=st.integers(0, 130),
            expected_samples=st.integers(0, 120),
            begin_at=st.integers(-100, 3600).map(at),
            energy_millijoules=st.integers(0, 10**9) | st.none(),
        ),
        max_size=8,
    ),
    st.integers(1, 8),
)
def test_whatever_the_devices_the_figures_stay_in_bounds(devices: list[Device], units: int) -> None:
    found = activity(holding(units=units), *devices)

    ratios = [d.busy_ratio for d in devices if d.busy_ratio is not None]
    if found.coverage is not None:
        assert 0 <= found.coverage <= 1
    if found.busy_ratio is not None:
        assert min(ratios) <= found.busy_ratio <= max(ratios)
        assert found.coverage is not None
        assert found.coverage >= Decimal("0.8")
    if found.energy_millijoules is not None:
        assert found.energy_millijoules >= 0
