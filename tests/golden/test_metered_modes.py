"""Golden files: an hour of each sharing mode, from exporter's text to usage, capacity and devices.

Each text is what dcgm-exporter of some release prints in that mode; a real Prometheus holds an hour
of it. What is metered from it is compared with a file, figure by figure. After an intended change:

    GOLDEN=write .venv/bin/pytest tests/golden
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import (
    CapacityRecord,
    DeviceUsage,
    MeteringException,
    MeteringWindow,
    UsageRecord,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.devices.collection import collect_due_devices
from tenants.models import Cluster
from tests.golden.exposed import EXPORTER, KSM, Line, Pod, history, objects, read_text, scraped
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.watched import ledgered, offered, reserved, watched
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    MIXED_H100,
    SINGLE_H100,
    SLICED_A100,
    WHOLE_H100,
    moment,
)

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).parent / "metering"
IS_WRITING = os.environ.get("GOLDEN") == "write"
GPU = "nvidia.com/gpu"
CLAIM = "claim/gpu.nvidia.com"
FOUR = (("team-cv", "infer-a-0"), ("team-cv", "infer-b-0"), ("team-nlp", "dev-bob-0"))
RENAMED_A100 = {**SLICED_A100, "nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"}
MPS_A100 = {**SLICED_A100, "nvidia_com_gpu_sharing_strategy": "mps"}


def mig_labels(*profiles: str, replicas: int = 1) -> Mapping[str, str]:
    """Return the labels of a node with these profiles in strategy mixed."""
    own = {}
    for profile in profiles:
        base = f"nvidia.com/mig-{profile}"
        own[f"{base}.product"] = f"NVIDIA-H100-80GB-HBM3-MIG-{profile}"
        own[f"{base}.replicas"] = str(replicas)
    return {**MIXED_H100, **own}


@dataclass(frozen=True)
class Mode:
    """One sharing mode: the node, what it offers, who holds it, and how it is scraped."""

    node: str
    pods: tuple[Pod, ...]
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    honors: bool = False

    def lines(self, name: str) -> list[Line]:
        """Return everything Prometheus holds of it."""
        reported = objects(
            self.node,
            self.pods,
            labels=self.labels,
            allocatable=self.allocatable,
            start_at=HOUR,
        )
        devices = read_text(FILES / f"{name}.prom")
        return [
            *scraped(reported, KSM, honors=True),
            *scraped(devices, EXPORTER, honors=self.honors),
            Line("up", KSM, "1"),
            Line("up", EXPORTER, "1"),
        ]


def four_sharers(resource: str = GPU) -> tuple[Pod, ...]:
    """Return the four pods of the A100; the last one came after a quarter of the hour."""
    early = tuple(Pod(namespace, name, f"uid-{name}", resource) for namespace, name in FOUR)
    return (*early, Pod("team-nlp", "dev-eve-0", "uid-dev-eve-0", resource, bound_seconds=900))


def sliced(
    node: str, labels: Mapping[str, str], resource: str = GPU, *, honors: bool = False
) -> Mode:
    """Return one A100 that is handed out four times."""
    return Mode(node, four_sharers(resource), labels, {resource: 4}, honors)


MODES: Mapping[str, Mode] = {
    "whole": Mode(
        "gpu-h100-01", (Pod("team-nlp", "llm-train-0", "uid-llm", GPU),), WHOLE_H100, {GPU: 2}
    ),
    "mig-mixed": Mode(
        "gpu-h100-02",
        (
            Pod("team-nlp", "embed-6c9f7d5b8-q2xkv", "uid-embed", "nvidia.com/mig-3g.40gb"),
            Pod("team-cv", "detector-0", "uid-detector", "nvidia.com/mig-2g.20gb"),
            Pod("team-cv", "notebook-alice-0", "uid-notebook", "nvidia.com/mig-1g.10gb"),
        ),
        mig_labels("3g.40gb", "2g.20gb", "1g.10gb"),
        {
            "nvidia.com/mig-3g.40gb": 1,
            "nvidia.com/mig-2g.20gb": 1,
            "nvidia.com/mig-1g.10gb": 2,
        },
        honors=True,
    ),
    "mig-single": Mode(
        "gpu-h100-05",
        (Pod("team-cv", "notebook-erin-0", "uid-erin", GPU),),
        SINGLE_H100,
        {GPU: 2},
    ),
    "time-slicing": sliced("gpu-a100-03", SLICED_A100),
    "time-slicing-renamed": sliced("gpu-a100-03", RENAMED_A100, f"{GPU}.shared", honors=True),
    "time-slicing-virtual": sliced("gpu-a100-03", SLICED_A100),
    "time-slicing-by-process": sliced("gpu-a100-03", SLICED_A100, honors=True),
    "mps": sliced("gpu-a100-05", MPS_A100),
    "mig-time-slicing": Mode(
        "gpu-h100-06",
        (
            Pod("team-cv", "lab-a-0", "uid-lab-a", "nvidia.com/mig-1g.10gb.shared"),
            Pod(
                "team-cv",
                "lab-b-0",
                "uid-lab-b",
                "nvidia.com/mig-1g.10gb.shared",
                bound_seconds=900,
            ),
        ),
        mig_labels("1g.10gb", replicas=2),
        {"nvidia.com/mig-1g.10gb.shared": 2},
    ),
    "dra": Mode("gpu-h100-07", (), WHOLE_H100, {}),
}
SHARED = tuple(name for name in MODES if "slicing" in name or name == "mps")


@pytest.fixture(scope="module")
def prometheus_url() -> Iterator[str]:
    """Start a real Prometheus that holds every mode's hour, a cluster each."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    try:
        server.prepare()
        text = folder / "prometheus" / "history.txt"
        lines = {name: mode.lines(name) for name, mode in MODES.items()}
        with text.open("w", encoding="utf-8") as out:
            out.writelines(history(lines, start_at=HOUR))
        server.import_openmetrics(text, name="modes")
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, Any]]:
    """Hold what came of each mode's hour, by the mode."""
    return {}


@pytest.fixture
def metered(
    request: pytest.FixtureRequest, prometheus_url: str, kept: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return what came of the hour of one mode, metered for the first test of it; to be read."""
    name: str = request.param
    if name not in kept:
        request.getfixturevalue("db")
        kept[name] = meter(name, prometheus_url)
    return kept[name]


def meter(name: str, prometheus_url: str) -> dict[str, Any]:
    """Meter the hour of one mode and return what came of it."""
    cluster = make_cluster(
        name,
        metered_from=HOUR,
        prometheus_url=prometheus_url,
        selector_label="cluster",
        selector_value=name,
        scrape_interval_seconds=30,
    )
    acme = make_organization()
    for namespace, slug in (("team-nlp", "llm"), ("team-cv", "vision")):
        bind(cluster, namespace, make_project(acme, slug))
    if name == "dra":
        hold_claims(cluster, MODES[name].node)
    source = PrometheusUsageSource()
    worker = Worker(name="golden", source=source, actor=ACTOR, policy=DEFAULT_POLICY)
    meter_due(worker=worker, at=moment(3600 + LATER))
    collect_due_devices(worker=worker, at=moment(3600 + LATER))
    return reported()


def hold_claims(cluster: Cluster, node: str) -> None:
    """Let the watch have seen one claim of one pod, and one that two pods shared for a while."""
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster, node, {CLAIM: 3})
    for uid, name in (("uid-training", "training"), ("uid-serving", "serving")):
        ledgered(cluster, uid, resource=CLAIM, pod_name=name, node=node)
    reserved(cluster, "uid-training", "p1", -600)
    reserved(cluster, "uid-serving", "p2", -600)
    reserved(cluster, "uid-serving", "p3", 1800)


def reported() -> dict[str, Any]:
    """Return what the ledger holds, as it stands in a golden file."""
    window = MeteringWindow.objects.get()
    return {
        "window": {"state": window.state, "coverage": str(window.coverage)},
        "exceptions": sorted(MeteringException.objects.values_list("kind", "subject")),
        "usage": [
            {
                "pod": record.pod_name,
                "project": record.project.slug,
                "resource": record.resource,
                "size": record.size,
                "price_group": record.price_group,
                "sharing_mode": record.sharing_mode,
                "share": f"{record.share_numerator}/{record.share_denominator}",
                "unit_seconds": record.unit_seconds,
                "split_among": record.split_among,
                "busy": text(record.activity.busy_ratio if record.activity else None),
                "busy_coverage": text(record.activity.busy_coverage if record.activity else None),
                "energy_millijoules": (
                    record.activity.energy_millijoules if record.activity else None
                ),
            }
            for record in UsageRecord.objects.select_related("project", "activity").order_by(
                "pod_uid"
            )
        ],
        "capacity": [
            {
                "resource": row.resource,
                "size": row.size,
                "share": f"{row.share_numerator}/{row.share_denominator}",
                "units": row.allocatable_units,
                "capacity": row.capacity_unit_seconds,
                "billed": row.billed_unit_seconds,
                "idle": row.idle_unit_seconds,
            }
            for row in CapacityRecord.objects.order_by("resource")
        ],
        "devices": [device_shown(row) for row in DeviceUsage.objects.order_by("uuid", "id")],
    }


def device_shown(row: DeviceUsage) -> dict[str, Any]:
    """Return one device's row as it stands in a golden file."""
    return {
        "device": f"{row.uuid} {row.instance_id} {row.instance_profile}".strip(),
        "model": row.model,
        "attribution": row.attribution,
        "pod": row.pod_name,
        "uid": row.pod_uid,
        "price_group": row.price_group,
        "seconds": row.seconds,
        "busy": text(row.busy_ratio),
        "busy_coverage": text(row.busy_coverage),
        "sm_active": text(row.sm_active_ratio),
        "tensor_active": text(row.tensor_active_ratio),
        "dram_active": text(row.dram_active_ratio),
        "memory_mebibytes": [row.memory_used_peak_mebibytes, row.memory_total_mebibytes],
        "power_milliwatts": row.power_mean_milliwatts,
        "energy_millijoules": row.energy_millijoules,
    }


def text(value: object) -> str | None:
    """Return a number as it is written, None for no data."""
    return None if value is None else str(value)


def in_modes(*names: str) -> pytest.MarkDecorator:
    """Return the mark that meters each of these modes."""
    return pytest.mark.parametrize("metered", names, indirect=True, ids=names)


@pytest.mark.parametrize(("metered", "name"), [(one, one) for one in MODES], indirect=["metered"])
def test_an_hour_is_metered_as_its_golden_file_says(metered: dict[str, Any], name: str) -> None:
    path = FILES / f"{name}.json"
    if IS_WRITING:
        path.write_text(json.dumps(metered, indent=1) + "\n", encoding="utf-8")

    assert json.loads(json.dumps(metered)) == json.loads(path.read_text(encoding="utf-8"))


@in_modes(*MODES)
def test_energy_of_devices_is_what_their_counters_say(metered: dict[str, Any]) -> None:
    by_gpu: dict[str, int] = {}
    watts: dict[str, int] = {}
    for row in metered["devices"]:
        uuid = row["device"].split()[0]
        by_gpu[uuid] = by_gpu.get(uuid, 0) + row["energy_millijoules"]
        watts[uuid] = row["power_milliwatts"] or watts.get(uuid, 0)

    assert by_gpu == {uuid: milliwatts * 3600 for uuid, milliwatts in watts.items()}


@in_modes(*MODES)
def test_capacity_is_what_was_billed_and_what_was_idle(metered: dict[str, Any]) -> None:
    assert metered["window"] == {"state": "sealed", "coverage": "1.00000"}
    assert metered["exceptions"] == []
    for row in metered["capacity"]:
        assert row["capacity"] == row["units"] * 3600 == row["billed"] + row["idle"]


@in_modes(*SHARED)
def test_a_shared_device_is_one_device_and_nobodys_alone(metered: dict[str, Any]) -> None:
    shared = [row for row in metered["devices"] if row["attribution"] != "overhead"]

    assert [(row["attribution"], row["pod"], row["seconds"]) for row in shared] == [
        ("shared", "", 3600)
    ]
    assert {record["busy"] for record in metered["usage"]} == {None}
    energy = sum(record["energy_millijoules"] for record in metered["usage"])
    assert 0 < energy <= shared[0]["energy_millijoules"]


@in_modes("time-slicing-virtual", "time-slicing-by-process", "mps")
def test_copies_and_processes_are_not_added_up(metered: dict[str, Any]) -> None:
    [device] = metered["devices"]

    assert (device["busy"], device["memory_mebibytes"][0]) == ("0.870000", 41_876)
    assert device["power_milliwatts"] == 288_114


@in_modes("dra")
def test_a_claim_is_billed_once_and_its_device_reported_by_its_pods(
    metered: dict[str, Any],
) -> None:
    usage = {
        record["pod"]: (record["resource"], record["unit_seconds"]) for record in metered["usage"]
    }

    assert usage == {
        "pod-p1": ("claim/uid-training/gpu.nvidia.com", 3600),
        "pod-p2": ("claim/uid-serving/gpu.nvidia.com", 2700),
        "pod-p3": ("claim/uid-serving/gpu.nvidia.com", 900),
    }
    assert [(row["attribution"], row["pod"]) for row in metered["devices"]] == [
        ("exclusive", "pod-p1"),
        ("shared", ""),
        ("idle", ""),
    ]
