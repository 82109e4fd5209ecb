"""Figures of devices: each from its own samples, none made up, and a stuck counter is doubted."""

from array import array
from collections.abc import Mapping, Sequence
from decimal import Decimal

import pytest

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.devices.columns import Column, Exporters, merged
from metering.adapters.prometheus.devices.observations import Devices, observe
from metering.adapters.prometheus.devices.raw import measure_raw
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Series
from metering.protocols import ClusterTarget, DeviceObservation, Figure
from tenants.domain.errors import SourceUnavailableError

NAMES = names_of(ClusterTarget(slug="hopper"))
HOUR = Hours(start=3_600_000, end=7_200_000, scrape=60_000)
ALWAYS = range(3540, 7261, 60)
GPU = {
    "UUID": "GPU-4a7b",
    "hostname": "gpu-h100-01",
    "modelName": "NVIDIA H100 80GB HBM3",
    "exported_namespace": "team-nlp",
    "exported_pod": "a",
}
POWERED = {known.POWER: "400.5", known.SM_CLOCK: "1980"}


def instance(number: str, profile: str, pod: str = "a") -> dict[str, str]:
    return {**GPU, "exported_pod": pod, "GPU_I_ID": number, "GPU_I_PROFILE": profile}


def series(
    metric: str,
    value: str | Sequence[str],
    labels: Mapping[str, str] = GPU,
    times: Sequence[int] = ALWAYS,
) -> Series:
    values = [value] * len(times) if isinstance(value, str) else value
    return Series(metric, labels, [at * 1000 for at in times], values)


def read_all(*rows: Series) -> Devices:
    measured = measure_raw(rows, rows, Exporters(frozenset()), NAMES, HOUR)
    return observe(measured, scrape=HOUR.scrape)


def read(*rows: Series) -> DeviceObservation:
    [device] = read_all(*rows).observations
    return device


def busy(value: str = "0.5", labels: Mapping[str, str] = GPU) -> Series:
    return series(known.BUSY_RATIO, value, labels)


def test_every_figure_is_a_mean_or_a_peak_of_its_own_samples() -> None:
    rising = [str(30_000 + index) for index in range(len(ALWAYS))]

    device = read(
        busy(),
        series(known.SM_ACTIVE, "0.25"),
        series(known.TENSOR_ACTIVE, "0.125", times=range(3540, 5400, 60)),
        series(known.DRAM_ACTIVE, "0.356117"),
        series(known.MEMORY_USED, rising),
        series(known.MEMORY_FREE, "50321"),
        series(known.MEMORY_RESERVED, "619"),
        series(known.POWER, "642.317000"),
        series(known.SM_CLOCK, "1980"),
    )

    assert device.sm_active_ratio == Decimal("0.250000")
    assert device.tensor_active_ratio == Decimal("0.125000")
    assert device.dram_active_ratio == Decimal("0.356117")
    # The sample on the hour is the first inside it, the one before its end the last.
    assert device.memory_used_peak_mebibytes == 30_060
    assert device.memory_total_mebibytes == 30_001 + 50_321 + 619
    assert device.power_mean_milliwatts == 642_317
    assert {name: device.figure_samples.get(name) for name in Figure} == {
        "sm_active": 60,
        "tensor_active": 30,
        "dram_active": 60,
        "memory": 60,
        "power": 60,
        "energy": None,
    }


def test_what_is_not_exported_is_unknown_and_named() -> None:
    seen = read_all(busy())

    [device] = seen.observations
    assert device.busy_ratio == Decimal("0.500000")
    assert (device.sm_active_ratio, device.dram_active_ratio) == (None, None)
    assert (device.memory_used_peak_mebibytes, device.memory_total_mebibytes) == (None, None)
    assert (device.power_mean_milliwatts, device.energy_millijoules) == (None, None)
    assert device.figure_samples == {}
    assert seen.missing_figures == (
        "dram_active",
        "energy",
        "memory",
        "power",
        "sm_active",
        "tensor_active",
    )
    assert seen.energies == ()


def test_one_device_that_exports_a_figure_is_enough_for_it_not_to_be_missing() -> None:
    other = {**GPU, "UUID": "GPU-2"}

    seen = read_all(busy(), busy(labels=other), series(known.SM_ACTIVE, "0.1", other))

    assert "sm_active" not in seen.missing_figures
    assert [one.sm_active_ratio for one in seen.observations] == [Decimal("0.100000"), None]


def test_without_devices_no_figure_is_missing() -> None:
    assert read_all() == Devices()


def test_a_figure_of_a_device_nobody_presented_is_passed_over() -> None:
    assert read_all(series(known.POWER, "100")) == Devices()


@pytest.mark.parametrize(
    ("rows", "total"),
    [
        ({known.MEMORY_USED: "100", known.MEMORY_FREE: "900"}, 1_000),
        ({known.MEMORY_USED: "100"}, None),
        ({known.MEMORY_FREE: "900"}, None),
        ({}, None),
    ],
    ids=["nothing reserved is told", "no free", "no used", "nothing"],
)
def test_memory_adds_up_only_of_what_is_reported(rows: dict[str, str], total: int | None) -> None:
    device = read(busy(), *(series(metric, value) for metric, value in rows.items()))

    assert device.memory_total_mebibytes == total


def test_memory_of_different_scrapes_is_not_added_up() -> None:
    device = read(
        busy(),
        series(known.MEMORY_USED, "100"),
        series(known.MEMORY_FREE, "900", times=range(3665, 7261, 60)),
    )

    assert (device.memory_used_peak_mebibytes, device.memory_total_mebibytes) == (100, None)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (known.POWER, "5000.1"),
        (known.SM_ACTIVE, "1.000001"),
        (known.MEMORY_USED, "10000001"),
        (known.SM_ACTIVE, "NaN"),
    ],
)
def test_a_figure_that_cannot_be_counts_as_unseen(metric: str, value: str) -> None:
    device = read(busy(), series(metric, value))

    assert device.figure_samples == {}


# ---------------------------------------------------------------- doubt


def test_an_engine_at_zero_while_the_gpu_takes_power_is_doubted() -> None:
    device = read(
        busy("0"),
        series(known.SM_ACTIVE, "0"),
        series(known.DRAM_ACTIVE, "0.1"),
        *(series(metric, value) for metric, value in POWERED.items()),
    )

    assert (device.is_busy_uncertain, device.busy_ratio) == (True, Decimal("0.000000"))
    assert device.sm_active_ratio is None
    assert device.dram_active_ratio == Decimal("0.100000")


def test_an_engine_at_zero_on_an_idle_gpu_is_believed() -> None:
    device = read(busy("0"), series(known.POWER, "69.842"), series(known.SM_CLOCK, "345"))

    assert (device.is_busy_uncertain, device.busy_ratio) == (False, Decimal("0.000000"))


def test_utilization_is_believed_where_it_proves_the_engine_wrong() -> None:
    device = read(series(known.BUSY_PERCENT, "90"), busy("0"), series(known.TENSOR_ACTIVE, "0"))

    assert (device.is_busy_uncertain, device.busy_ratio) == (False, Decimal("0.900000"))
    assert device.tensor_active_ratio is None


def test_an_idle_instance_is_believed_beside_one_that_takes_the_power() -> None:
    idle, working = instance("1", "1g.10gb", ""), instance("2", "3g.40gb")

    seen = read_all(
        busy("0", idle),
        busy("0.9", working),
        *(series(known.POWER, "400", labels) for labels in (idle, working)),
    )

    assert [one.is_busy_uncertain for one in seen.observations] == [False, False]


def test_instances_that_are_all_at_zero_while_their_gpu_takes_power_are_doubted() -> None:
    labels = (instance("1", "1g.10gb"), instance("2", "3g.40gb"))

    seen = read_all(
        *(busy("0", one) for one in labels), *(series(known.POWER, "400", one) for one in labels)
    )

    assert [one.is_busy_uncertain for one in seen.observations] == [True, True]


# ---------------------------------------------------------------- energy


def counter(labels: Mapping[str, str] = GPU, times: Sequence[int] = ALWAYS) -> Series:
    return series(known.ENERGY, [str(at * 300_000) for at in times], labels, times)


def test_a_gpus_energy_is_marked_where_its_runs_begin_and_end() -> None:
    later = {**GPU, "exported_pod": "b"}

    seen = read_all(
        counter(times=range(3540, 5400, 60)),
        counter(later, range(5400, 7261, 60)),
        series(known.POWER, "300"),
    )

    [energy] = seen.energies
    assert (energy.uuid, energy.node, energy.idle_milliwatts) == (
        "GPU-4a7b",
        GPU["hostname"],
        300_000,
    )
    assert [at.timestamp() for at in energy.marks] == [3600, 5400, 7200]
    assert energy.taken_millijoules == (0, 540_000_000, 1_080_000_000)
    assert [one.energy_millijoules for one in seen.observations] == [540_000_000, 540_000_000]


def test_instances_repeat_one_counter_and_share_one_energy() -> None:
    seen = read_all(counter(instance("1", "1g.10gb")), counter(instance("2", "3g.40gb", "b")))

    [energy] = seen.energies
    assert energy.taken_millijoules == (0, 1_080_000_000)
    assert energy.idle_milliwatts is None
    assert [one.energy_millijoules for one in seen.observations] == [None, None]
    assert [one.figure_samples for one in seen.observations] == [{"energy": 60}, {"energy": 60}]


def test_power_stands_in_for_a_counter_that_is_not_there() -> None:
    seen = read_all(busy(), series(known.POWER, "300"))

    [energy] = seen.energies
    assert energy.taken_millijoules == (0, 3600 * 300_000)
    assert seen.observations[0].energy_millijoules == 3600 * 300_000


def test_a_counter_that_climbs_faster_than_a_gpu_can_has_no_energy() -> None:
    times = [3540, 3600, 3660]

    seen = read_all(busy(), series(known.ENERGY, ["0", "999999999999", "1"], times=times))

    assert seen.energies == ()
    assert seen.observations[0].energy_millijoules is None


def test_readings_are_whole_however_they_are_spelled() -> None:
    spelled = ["1.0625e+09" if at == 3540 else str(at * 300_000) for at in ALWAYS]

    seen = read_all(series(known.ENERGY, spelled))

    assert seen.energies[0].taken_millijoules == (0, 1_080_000_000)


def test_a_reading_that_is_no_number_is_refused() -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        read_all(series(known.ENERGY, "much"))

    assert refusal.value.reason == "bad_sample"


# ---------------------------------------------------------------- sharing


def test_a_series_that_numbers_its_share_is_of_a_shared_device() -> None:
    device = read(busy(labels={**GPU, "vgpu": "0"}))

    assert (device.namespace, device.pod, device.is_shared) == ("", "", True)


def test_several_pods_at_once_share_a_device() -> None:
    device = read(busy(), busy(labels={**GPU, "exported_pod": "b"}))

    assert (device.pod, device.is_shared) == ("", True)


def test_copies_that_agree_are_one_column() -> None:
    column = Column([1, 2], array("q", [5, 6]))

    assert merged([column, Column([1, 2], array("q", [5, 6]))]) is column
    assert merged([column, Column([2, 3], array("q", [9, 1]))]) == Column(
        [1, 2, 3], array("q", [5, 9, 1])
    )


def test_series_that_share_their_times_are_counted_alike() -> None:
    times = [at * 1000 for at in ALWAYS]
    rows = [
        Series(known.BUSY_RATIO, {**GPU, "UUID": uuid}, times, ["0.5"] * len(times))
        for uuid in ("GPU-1", "GPU-2")
    ]

    seen = read_all(*rows)

    assert [(one.samples, one.expected_samples) for one in seen.observations] == [(60, 60)] * 2


def test_spellings_are_purged_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metering.adapters.prometheus.devices.columns._TEXTS_MAX", 1)
    other = {**GPU, "UUID": "GPU-2"}

    seen = read_all(
        *(busy(labels=labels) for labels in (GPU, other)),
        *(series(known.SM_ACTIVE, ["0.1", "0.3"] * 31 + ["0.1"], one) for one in (GPU, other)),
    )

    assert [one.sm_active_ratio for one in seen.observations] == [Decimal("0.200000")] * 2
