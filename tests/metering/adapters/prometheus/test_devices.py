"""Devices: merged first, then cut by who they served."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.devices.columns import Exporters
from metering.adapters.prometheus.devices.observations import Devices, observe
from metering.adapters.prometheus.devices.raw import measure_raw
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Series
from metering.protocols import ClusterTarget, DeviceObservation
from tenants.domain.errors import SourceUnavailableError

NAMES = names_of(ClusterTarget(slug="hopper"))
HOUR = Hours(start=3_600_000, end=7_200_000, scrape=60_000)
OWN = {
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-7hx2p",
    "container": "nvidia-dcgm-exporter",
}
EXPORTERS = Exporters(frozenset({("gpu-operator", "nvidia-dcgm-exporter-7hx2p")}))
GPU = {"UUID": "GPU-4a7b", "hostname": "gpu-h100-01", "modelName": "NVIDIA H100 80GB HBM3", **OWN}
MIG = {**GPU, "GPU_I_ID": "9", "GPU_I_PROFILE": "1g.10gb"}
UTIL, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
ALWAYS = range(3540, 7261, 60)


def serving(pod: str, namespace: str = "team-nlp") -> dict[str, str]:
    return {"exported_namespace": namespace, "exported_pod": pod, "exported_container": "main"}


def series(
    metric: str,
    labels: Mapping[str, str],
    value: str | Sequence[str] = "50",
    times: Sequence[int] = ALWAYS,
) -> Series:
    values = [value] * len(times) if isinstance(value, str) else value
    return Series(metric, labels, [at * 1000 for at in times], values)


def read_all(*rows: Series) -> Devices:
    return observe(measure_raw(rows, rows, EXPORTERS, NAMES, HOUR), scrape=HOUR.scrape)


def read(*rows: Series) -> tuple[DeviceObservation, ...]:
    return read_all(*rows).observations


def runs(*rows: Series) -> list[tuple[str, int, int]]:
    return [
        (one.pod, int(one.begin_at.timestamp()), int(one.end_at.timestamp())) for one in read(*rows)
    ]


def test_a_device_that_served_one_pod_throughout_is_one_run() -> None:
    (device,) = read(
        series(UTIL, {**GPU, **serving("a")}, "98"),
        series(ENERGY, {**GPU, **serving("a")}, [str(at * 300_000) for at in ALWAYS]),
    )

    assert device == DeviceObservation(
        uuid="GPU-4a7b",
        node="gpu-h100-01",
        model="NVIDIA H100 80GB HBM3",
        instance_id="",
        instance_profile="",
        namespace="team-nlp",
        pod="a",
        begin_at=datetime(1970, 1, 1, 1, tzinfo=UTC),
        end_at=datetime(1970, 1, 1, 2, tzinfo=UTC),
        busy_ratio=Decimal("0.980000"),
        samples=60,
        expected_samples=60,
        energy_millijoules=3600 * 300_000,
        figure_samples={"energy": 60},
    )


def test_an_instance_is_busy_by_its_engine_and_has_no_energy_of_its_own() -> None:
    (device,) = read(
        series(ENGINE, {**MIG, **serving("a")}, "0.402557"),
        series(ENERGY, {**MIG, **serving("a")}, [str(at * 300_000) for at in ALWAYS]),
    )

    assert (device.instance_id, device.instance_profile) == ("9", "1g.10gb")
    assert device.busy_ratio == Decimal("0.402557")
    assert device.energy_millijoules is None


def test_an_instance_number_that_is_used_again_for_another_profile_is_another_device() -> None:
    first, again = dict(MIG), {**MIG, "GPU_I_PROFILE": "2g.20gb"}

    devices = read(series(ENGINE, first, "0.1"), series(ENGINE, again, "0.2"))

    assert [(one.instance_profile, one.busy_ratio) for one in devices] == [
        ("1g.10gb", Decimal("0.100000")),
        ("2g.20gb", Decimal("0.200000")),
    ]


def test_a_whole_device_without_utilization_is_busy_by_its_engine() -> None:
    (device,) = read(series(ENGINE, GPU, "0.25"))

    assert device.busy_ratio == Decimal("0.250000")


def test_utilization_goes_before_the_engine() -> None:
    (device,) = read(series(ENGINE, GPU, "0.25"), series(UTIL, GPU, "30"))

    assert device.busy_ratio == Decimal("0.300000")


def test_the_engine_of_later_releases_goes_by_another_name() -> None:
    later = names_of(ClusterTarget(slug="hopper"))

    assert later.ours["DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"] == ENGINE


def test_energy_alone_makes_a_device_without_a_busy_ratio() -> None:
    (device,) = read(series(ENERGY, GPU, [str(at) for at in ALWAYS]))

    assert (device.busy_ratio, device.samples, device.expected_samples) == (None, 0, 60)
    assert device.energy_millijoules == 3600


def test_pods_one_after_another_are_runs_one_after_another() -> None:
    first = series(UTIL, {**GPU, **serving("a")}, "80", range(3540, 5400, 60))
    second = series(UTIL, {**GPU, **serving("b")}, "20", range(5400, 7261, 60))
    counters = [
        series(
            ENERGY,
            one.labels,
            [str(at // 1000 * 100_000) for at in one.times],
            [at // 1000 for at in one.times],
        )
        for one in (first, second)
    ]

    devices = read(second, first, *counters)

    assert [
        (one.pod, one.begin_at.timestamp(), one.busy_ratio, one.samples, one.energy_millijoules)
        for one in devices
    ] == [
        ("a", 3600, Decimal("0.800000"), 30, 180_000_000),
        ("b", 5400, Decimal("0.200000"), 30, 180_000_000),
    ]


def test_idle_between_pods_is_a_run_of_nobody() -> None:
    assert runs(
        series(UTIL, {**GPU, **serving("a")}, times=range(3540, 4200, 60)),
        series(UTIL, GPU, "0", range(4200, 4800, 60)),
        series(UTIL, {**GPU, **serving("a")}, times=range(4800, 7261, 60)),
    ) == [("a", 3600, 4200), ("", 4200, 4800), ("a", 4800, 7200)]


def test_a_hole_within_one_workload_shows_as_missing_samples() -> None:
    times = [*range(3540, 4200, 60), *range(5400, 7261, 60)]

    (device,) = read(series(UTIL, {**GPU, **serving("a")}, times=times))

    assert (device.samples, device.expected_samples) == (40, 60)


def test_a_hole_between_workloads_belongs_to_neither() -> None:
    assert runs(
        series(UTIL, {**GPU, **serving("a")}, times=range(3540, 4200, 60)),
        series(UTIL, {**GPU, **serving("b")}, times=range(5400, 7261, 60)),
    ) == [("a", 3600, 4200), ("b", 5400, 7200)]


def test_a_device_that_vanishes_ends_a_scrape_after_its_last_sample() -> None:
    assert runs(series(UTIL, GPU, times=range(3540, 4200, 60))) == [("", 3600, 4200)]


def test_a_hole_of_a_whole_window_is_a_run_without_data() -> None:
    (device,) = read(series(UTIL, GPU, times=[3480, 7200, 7260]))

    assert (device.busy_ratio, device.samples, device.expected_samples) == (None, 0, 60)


@pytest.mark.parametrize("times", [[3480], [7200, 7260]], ids=["before", "after"])
def test_a_device_seen_only_outside_the_window_is_left_out(times: list[int]) -> None:
    assert runs(series(UTIL, GPU, times=times)) == []


def test_copies_for_several_pods_are_merged_and_attributed_to_nobody() -> None:
    copies = [series(UTIL, {**GPU, **serving(pod), "vgpu": pod}, "87") for pod in "abcd"]

    (device,) = read(*copies)

    assert (device.namespace, device.pod) == ("", "")
    assert (device.busy_ratio, device.samples) == (Decimal("0.870000"), 60)


def test_the_device_total_wins_over_its_parts_by_process() -> None:
    (device,) = read(
        series(UTIL, GPU, "87"),
        series(UTIL, {**GPU, **serving("a")}, "52"),
        series(UTIL, {**GPU, **serving("b")}, "31"),
    )

    assert device.busy_ratio == Decimal("0.870000")


def test_two_copies_of_prometheus_are_one_device_with_no_more_samples_than_expected() -> None:
    labels = {**GPU, **serving("a")}
    (device,) = read(
        series(UTIL, {**labels, "replica": "a"}, "40"),
        series(UTIL, {**labels, "replica": "b"}, "60", range(3565, 7261, 60)),
    )

    assert device.samples == device.expected_samples == 60
    assert device.busy_ratio == Decimal("0.500000")


def test_a_restarted_exporter_is_still_one_device() -> None:
    labels = {**GPU, **serving("a")}

    assert runs(
        series(UTIL, labels, times=range(3540, 5400, 60)),
        series(UTIL, {**labels, "instance": "new"}, times=range(5400, 7261, 60)),
    ) == [("a", 3600, 7200)]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "101", "2147483632"])
def test_a_value_that_cannot_be_believed_counts_as_unseen(value: str) -> None:
    values = [value if at < 5400 else "50" for at in ALWAYS]

    (device,) = read(series(UTIL, GPU, values))

    assert device.busy_ratio == Decimal("0.500000")
    assert (device.samples, device.expected_samples) == (30, 60)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        read(series(UTIL, GPU, "busy"))

    assert refusal.value.reason == "bad_sample"


def test_a_series_without_a_device_is_passed_over() -> None:
    assert read(series(UTIL, OWN)) == ()


def test_devices_come_by_uuid_and_instance() -> None:
    devices = read(
        series(ENGINE, {**MIG, "UUID": "GPU-b"}, "0.1"),
        series(ENGINE, {**MIG, "UUID": "GPU-a", "GPU_I_ID": "10"}, "0.1"),
        series(UTIL, {**GPU, "UUID": "GPU-a"}),
    )

    assert [(one.uuid, one.instance_id) for one in devices] == [
        ("GPU-a", ""),
        ("GPU-a", "10"),
        ("GPU-b", "9"),
    ]


@given(
    st.lists(
        st.tuples(st.integers(3480, 7320), st.sampled_from(["", "a", "b"])),
        min_size=1,
        max_size=60,
        unique_by=lambda one: one[0],
    )
)
def test_runs_never_overlap_and_stay_inside_the_window(samples: list[tuple[int, str]]) -> None:
    rows = [
        series(
            UTIL,
            {**GPU, **(serving(pod) if pod else {})},
            times=sorted(at for at, who in samples if who == pod),
        )
        for pod in {who for _, who in samples}
    ]

    found = runs(*rows)

    assert all(3600 <= begin < end <= 7200 for _, begin, end in found)
    assert all(one[2] <= two[1] for one, two in pairwise(found))
    assert all(0 <= one.samples <= one.expected_samples for one in read(*rows))
