"""DCGM's text has the shapes of the real exporter, case by case.

The shapes are those of dcgm-exporter 4.5.3-4.8.3: label order, number formats, and which series
are missing where.
"""

import re
from datetime import timedelta

import pytest

from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.scenario import SimulatedCluster
from tests.simulator.conftest import MONTH
from tests.support.simulator.parsing import Line, named, read_lines

AT = MONTH + timedelta(days=5, hours=3)
BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
WHOLE_KEYS = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "hostname",
    "DCGM_FI_DRIVER_VERSION",
)
POD_KEYS = ("container", "namespace", "pod")
NOT_ON_INSTANCES = {
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
}


@pytest.fixture(scope="module")
def hopper_text(hopper: SimulatedCluster) -> str:
    return ClusterExposition(hopper).dcgm_text(AT)


@pytest.fixture(scope="module")
def ampere_text(ampere: SimulatedCluster) -> str:
    return ClusterExposition(ampere).dcgm_text(AT)


def test_a_used_whole_gpu_names_its_pod_after_the_device(hopper_text: str) -> None:
    line = next(line for line in named(hopper_text, BUSY) if line["pod"].startswith("chat-wb"))

    assert line.keys == WHOLE_KEYS + POD_KEYS
    assert line["modelName"] == "NVIDIA H100 80GB HBM3"
    assert line["hostname"] == "hopper-whole-2"
    assert line["device"] == f"nvidia{line['gpu']}"
    assert line["namespace"] == "llm-serve"
    assert line["container"] == "server"
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", line["UUID"])
    assert re.fullmatch(r"00000000:[0-9A-F]{2}:00\.0", line["pci_bus_id"])


def test_an_idle_gpu_has_no_pod_labels_and_is_not_busy(hopper_text: str) -> None:
    (line,) = named(hopper_text, BUSY, hostname="hopper-whole-1", gpu="7")

    assert line.keys == WHOLE_KEYS
    assert line.value == "0.000000"
    (power,) = named(hopper_text, "DCGM_FI_DEV_POWER_USAGE", hostname="hopper-whole-1", gpu="7")
    assert power.value == "70.000000"


def test_an_xid_line_says_no_error_among_its_attributes(hopper_text: str) -> None:
    line = next(line for line in named(hopper_text, "DCGM_FI_DEV_XID_ERRORS") if line["pod"])

    attributes = line.keys[line.keys.index("DCGM_FI_DRIVER_VERSION") + 1 :]
    assert attributes == ("container", "err_code", "err_msg", "namespace", "pod")
    assert (line["err_code"], line["err_msg"], line.value) == ("0", "No Error", "0")


def test_an_instance_carries_profile_and_id_after_the_model(hopper_text: str) -> None:
    lines = named(hopper_text, BUSY, hostname="hopper-mig-1", gpu="2")

    assert [line["GPU_I_PROFILE"] for line in lines] == ["1g.10gb"] * 7
    assert [line["GPU_I_ID"] for line in lines] == ["1", "2", "3", "4", "5", "6", "7"]
    for line in lines:
        assert line.keys[:7] == (
            *WHOLE_KEYS[:5],
            "GPU_I_PROFILE",
            "GPU_I_ID",
        )


def test_a_partitioned_gpu_has_no_series_of_its_own(hopper_text: str) -> None:
    for line in read_lines(hopper_text):
        if line["hostname"] == "hopper-mig-1" and line["gpu"] in {"2", "3"}:
            assert line["GPU_I_ID"]
            assert line.name not in NOT_ON_INSTANCES


def test_whole_gpus_have_what_instances_lack(hopper_text: str) -> None:
    for name in NOT_ON_INSTANCES:
        assert len(named(hopper_text, name)) == 20


def test_power_energy_and_temperature_of_an_instance_are_its_parents(hopper_text: str) -> None:
    for name in (ENERGY, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"):
        lines = named(hopper_text, name, hostname="hopper-mig-1", gpu="2")
        assert len(lines) == 7
        assert len({line.value for line in lines}) == 1


def test_instances_differ_in_what_is_theirs(hopper_text: str) -> None:
    lines = named(hopper_text, BUSY, hostname="hopper-mig-1", gpu="2")

    assert len({line.value for line in lines}) > 1


def test_a_sliced_gpu_goes_to_one_of_its_pods(ampere_text: str, ampere: SimulatedCluster) -> None:
    lines = named(ampere_text, BUSY, hostname="ampere-slice-1")
    alive = [pod for pod in ampere.pods_alive(AT) if pod.node == "ampere-slice-1"]

    assert len(lines) == 2
    assert len(alive) > 4
    for line in lines:
        assert line["pod"] in {pod.name for pod in alive}
        assert "vgpu" not in line.keys


@pytest.mark.parametrize("node", ["ampere-slice-2", "ampere-mps-2", "ampere-virtual-1"])
def test_a_renamed_or_unknown_resource_gets_no_pod_labels(ampere_text: str, node: str) -> None:
    lines = named(ampere_text, BUSY, hostname=node)

    assert lines
    assert all(line.keys == WHOLE_KEYS for line in lines)


def test_a_renamed_shared_gpu_is_busy_all_the_same(ampere_text: str) -> None:
    lines = named(ampere_text, BUSY, hostname="ampere-slice-2")

    assert all(line.value > "0.1" for line in lines)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("DCGM_FI_DEV_POWER_USAGE", r"\d+\.\d{6}"),
        (BUSY, r"[01]\.\d{6}"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", r"[01]\.\d{6}"),
        (ENERGY, r"\d{13,14}"),
        ("DCGM_FI_DEV_GPU_UTIL", r"\d{1,3}"),
        ("DCGM_FI_DEV_FB_USED", r"\d+"),
        ("DCGM_FI_DEV_SM_CLOCK", r"\d{3,4}"),
    ],
)
def test_floats_have_six_decimals_and_integers_none(
    hopper_text: str, name: str, shape: str
) -> None:
    lines = named(hopper_text, name)

    assert lines
    assert all(re.fullmatch(shape, line.value) for line in lines)


def test_every_family_is_reported_once_with_its_type(hopper_text: str) -> None:
    types = re.findall(r"^# TYPE (\S+) (\S+)$", hopper_text, re.MULTILINE)
    helps = re.findall(r"^# HELP (\S+) \S.*$", hopper_text, re.MULTILINE)

    assert [name for name, _ in types] == helps
    assert len(set(helps)) == len(helps) == 16
    assert dict(types)[ENERGY] == "counter"
    assert dict(types)[BUSY] == "gauge"


def test_the_lines_of_a_family_stand_together(hopper_text: str) -> None:
    order = list(dict.fromkeys(line.name for line in read_lines(hopper_text)))

    assert [line.name for line in read_lines(hopper_text)] == sorted(
        (line.name for line in read_lines(hopper_text)), key=order.index
    )


def test_memory_used_and_free_add_up(hopper_text: str) -> None:
    def key(line: Line) -> tuple[str, str]:
        return line["UUID"], line["GPU_I_ID"]

    free = {key(line): int(line.value) for line in named(hopper_text, "DCGM_FI_DEV_FB_FREE")}
    used = {key(line): int(line.value) for line in named(hopper_text, "DCGM_FI_DEV_FB_USED")}
    totals = {free[one] + used[one] for one in free}

    assert free.keys() == used.keys()
    assert totals == {80_940, 9_728, 19_968, 40_320}


def test_energy_rises_with_the_power_between(hopper: SimulatedCluster) -> None:
    exposition = ClusterExposition(hopper)
    for minute in range(0, 300, 30):
        first, second = (
            exposition.dcgm_text(AT + timedelta(minutes=minute, seconds=later)) for later in (0, 60)
        )
        for before, after in zip(named(first, ENERGY), named(second, ENERGY), strict=True):
            assert 70_000 * 60 <= int(after.value) - int(before.value) <= 690_000 * 60


def test_the_same_moment_reads_the_same_from_a_longer_scenario(
    hopper: SimulatedCluster, hopper_text: str
) -> None:
    assert ClusterExposition(hopper).dcgm_text(AT) == hopper_text
