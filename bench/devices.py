"""Six hours of 4,000 DCGM series beside a real Prometheus: DCGM samples a second, to their rows.

The same devices twice: once their pods belong to 50 tenants, once to 1,000, each an organization
with a project and a namespace of its own. More tenants must not make the same samples slower.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)
from bench.plain import ask_plainly
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
AT: Final = START + timedelta(hours=HOURS, minutes=20)
SCRAPE_SECONDS: Final = 30
GPUS: Final = scaled(400)
GPUS_PER_NODE: Final = 8
POD_HOURS: Final = 2
"""Each GPU serves three pods one after another, so 1,200 pods for at most 1,000 tenants."""
TENANTS: Final = (50, 1_000)
RATIO_MAX: Final = "1.3"
TO_PROMETHEUS_MAX: Final = "3.4"
EDGE_SECONDS: Final = 900

METRICS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": [b"%d" % (40 + step % 53) for step in range(97)],
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": [b"0.%06d" % (400_000 + step * 5_117) for step in range(97)],
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": [b"0.%06d" % (100_000 + step * 3_001) for step in range(97)],
    "DCGM_FI_PROF_DRAM_ACTIVE": [b"0.%06d" % (200_000 + step * 2_003) for step in range(97)],
    "DCGM_FI_DEV_POWER_USAGE": [b"%d.317000" % (300 + step * 3) for step in range(97)],
    "DCGM_FI_DEV_SM_CLOCK": [b"%d" % (1_400 + step * 5) for step in range(97)],
    "DCGM_FI_DEV_FB_USED": [b"%d" % (30_000 + step * 301) for step in range(97)],
    "DCGM_FI_DEV_FB_FREE": [b"%d" % (50_940 - step * 301) for step in range(97)],
    "DCGM_FI_DEV_FB_RESERVED": [b"619"],
}
"""The exporter's default counters that are read, with the values they go through; and ENERGY."""
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
MILLIWATTS: Final = 450_000
EXPORTER: Final = (
    'job="nvidia-dcgm-exporter",namespace="gpu-operator",container="nvidia-dcgm-exporter"'
)
LABELS: Final = (
    'label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3",label_nvidia_com_gpu_count="8",'
    'label_nvidia_com_gpu_replicas="1",label_nvidia_com_gpu_sharing_strategy="none"'
)
KSM: Final = 'job="kube-state-metrics",instance="10.42.0.9:8080"'


@dataclass(frozen=True)
class Stay:
    """One pod on one GPU, epoch seconds."""

    gpu: int
    begin: int
    end: int
    namespace: str
    uid: str

    @property
    def node(self) -> str:
        """Return the GPU's node."""
        return f"gpu-{self.gpu // GPUS_PER_NODE:03d}"

    @property
    def pod(self) -> str:
        """Return the pod's labels as kube-state-metrics exports them."""
        return f'{KSM},namespace="{self.namespace}",pod="train-{self.uid}",uid="{self.uid}"'

    def device(self) -> str:
        """Return the device's labels after a scrape."""
        return (
            f'{EXPORTER},pod="exporter-{self.node}",instance="{self.node}:9400"'
            f',gpu="{self.gpu % 8}",UUID="GPU-{self.gpu:08d}-9c55-7f20-8b1a-2d6e0f91c384"'
            f',device="nvidia{self.gpu % 8}"'
            f',modelName="NVIDIA H100 80GB HBM3",hostname="{self.node}"'
            f',DCGM_FI_DRIVER_VERSION="580.95.05",exported_namespace="{self.namespace}"'
            f',exported_pod="train-{self.uid}",exported_container="main"'
        )


def run() -> Iterator[Figure]:
    """Yield the figures of device metering."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        yield from _measure(Path(folder))


def _measure(folder: Path) -> Iterator[Figure]:
    from metering.models import DeviceUsage, MeteringWindow  # noqa: PLC0415 - Django is set up.

    server = _prometheus(folder)
    seconds: dict[int, Decimal] = {}
    samples = GPUS * (len(METRICS) + 1) * HOURS * 3600 // SCRAPE_SECONDS
    try:
        for tenants in TENANTS:
            _tenants(tenants, server.url())
        _meter(START + timedelta(hours=1, minutes=20))
        for tenants in TENANTS:
            _only(tenants)
            with measured() as watch:
                _meter(AT)
            seconds[tenants] = watch.seconds
            plain = _ask_plainly(tenants, server.url())
            yield ratio(
                f"devices.to_prometheus_{tenants}_tenants",
                watch.seconds / plain,
                Bound.AT_MOST,
                TO_PROMETHEUS_MAX,
            )
            yield measurement(
                f"devices.dcgm_samples_per_second_{tenants}_tenants",
                Decimal(samples) * (HOURS - 1) / HOURS / watch.seconds,
                "1/s",
            )
        slower = seconds[TENANTS[1]] / seconds[TENANTS[0]]
        yield ratio("devices.more_tenants_to_fewer", slower, Bound.AT_MOST, RATIO_MAX)
    finally:
        server.stop()
    unsealed = MeteringWindow.objects.exclude(state="sealed").values_list("state", "last_error")
    assert not unsealed, list(unsealed)
    assert DeviceUsage.objects.filter(attribution="exclusive", busy_coverage=1).count() == (
        len(TENANTS) * GPUS * HOURS
    )


def _meter(at: datetime) -> None:
    """Open what is due, meter it and collect its device figures, in one process."""
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415
    from metering.services.devices.collection import collect_due_devices  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    open_due_windows(at=at)
    worker = Worker(name="bench", source=source, actor=system_actor("bench"))
    meter_due(worker=worker, at=at)
    collect_due_devices(worker=worker, at=at)


def _ask_plainly(tenants: int, url: str) -> Decimal:
    """Return the seconds Prometheus takes for all queries about the hours metered last."""
    from metering.models import DeviceWindow, MeteringWindow  # noqa: PLC0415 - Django is set up.

    since = START + timedelta(hours=1)
    windows = MeteringWindow.objects.filter(cluster__slug=_slug(tenants), start_at__gte=since)
    figures = DeviceWindow.objects.filter(window__in=windows)
    evidence = [
        *windows.values_list("evidence", flat=True),
        *figures.values_list("evidence", flat=True),
    ]
    queries = [(one["query"], one["at"]) for hour in evidence for one in hour]
    assert len(queries) > len(evidence), queries
    return ask_plainly(url, queries)


def _only(tenants: int) -> None:
    """Make one cluster's hours due; the other's are metered already or not yet due."""
    from tenants.models import Cluster  # noqa: PLC0415 - Django is set up by now.

    Cluster.objects.exclude(slug=_slug(tenants)).update(state="closed")
    Cluster.objects.filter(slug=_slug(tenants)).update(state="active")


def _slug(tenants: int) -> str:
    return f"tenants-{tenants}"


def _tenants(count: int, prometheus_url: str) -> None:
    """Make a cluster and so many organizations, each with a project and a namespace of its own."""
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    who: dict[str, Any] = {"actor": system_actor("bench"), "at": START}
    cluster = register_cluster(
        slug=_slug(count),
        name=f"{count} tenants",
        metered_from=START,
        prometheus_url=prometheus_url,
        selector_label="cluster",
        selector_value=_slug(count),
        scrape_interval_seconds=SCRAPE_SECONDS,
        user_label="",
        **who,
    )
    for number in range(count):
        slug = f"t{count}-{number}"
        organization = create_organization(slug=slug, name=slug, billing_currency="EUR", **who)
        project = create_project(organization=organization, slug=slug, name=slug, **who)
        bind_namespace(cluster=cluster, namespace=slug, project=project, valid_from=START, **who)


def _prometheus(folder: Path) -> EmbeddedPrometheus:
    """Return a server with both histories in it."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    for tenants in TENANTS:
        text = server.folder / "history.txt"
        with text.open("wb") as out:
            _write(out, tenants)
        server.import_openmetrics(text, name=_slug(tenants))
        text.unlink()
    server.start()
    return server


def _stays(tenants: int) -> list[Stay]:
    begin = int(START.timestamp())
    length = POD_HOURS * 3600
    return [
        Stay(
            gpu=gpu,
            begin=begin + turn * length - (EDGE_SECONDS if turn == 0 else 0),
            end=begin + (turn + 1) * length + (EDGE_SECONDS if turn == last else 0),
            namespace=f"t{tenants}-{(gpu * (last + 1) + turn) % tenants}",
            uid=f"{tenants}-{gpu}-{turn}",
        )
        for last in (HOURS // POD_HOURS - 1,)
        for gpu in range(GPUS)
        for turn in range(last + 1)
    ]


def _write(out: BinaryIO, tenants: int) -> None:
    """Write the history of one cluster as OpenMetrics, family by family."""
    stays = _stays(tenants)
    cluster = f'cluster="{_slug(tenants)}"'
    for name, values in METRICS.items():
        _head(out, name)
        for stay in stays:
            ticks = _ticks(stay.begin, stay.end)
            cycle = [values[(at // 30 + stay.gpu) % len(values)] for at in ticks]
            _lines(out, f"{name}{{{cluster},{stay.device()}}}", ticks, cycle)
    _head(out, ENERGY)
    for stay in stays:
        ticks = _ticks(stay.begin, stay.end)
        counter = [b"%d" % (MILLIWATTS * (at - 1_790_000_000)) for at in ticks]
        _lines(out, f"{ENERGY}{{{cluster},{stay.device()}}}", ticks, counter)
    _write_objects(out, cluster, stays)
    out.write(b"# EOF\n")


def _write_objects(out: BinaryIO, cluster: str, stays: list[Stay]) -> None:
    asked = 'container="main",resource="nvidia_com_gpu",unit="integer"'
    families = (
        ("kube_pod_container_resource_requests", asked, b"1"),
        ("kube_pod_info", 'priority_class=""', b"1"),
        ("kube_pod_labels", "", b"1"),
        ("kube_pod_status_scheduled_time", "", b""),
    )
    for name, extra, value in families:
        _head(out, name)
        for stay in stays:
            ticks = _ticks(stay.begin, stay.end)
            node = f'node="{stay.node}"' if extra else ""
            labels = ",".join(part for part in (cluster, stay.pod, node, extra) if part)
            written = value or b"%d" % stay.begin
            _lines(out, f"{name}{{{labels}}}", ticks, [written] * len(ticks))
    begin = int(START.timestamp())
    ticks = _ticks(begin - EDGE_SECONDS, begin + HOURS * 3600 + EDGE_SECONDS)
    nodes = sorted({stay.node for stay in stays})
    offers = [f'{KSM},node="{node}",resource="nvidia_com_gpu",unit="integer"' for node in nodes]
    reported = [f'{KSM},node="{node}",{LABELS}' for node in nodes]
    pods = [f'{EXPORTER},pod="exporter-{node}",instance="{node}:9400"' for node in nodes]
    for name, series, value in (
        ("kube_node_status_allocatable", offers, b"8"),
        ("kube_node_labels", reported, b"1"),
        ("up", [KSM, *pods], b"1"),
    ):
        _head(out, name)
        for labels in series:
            _lines(out, f"{name}{{{cluster},{labels}}}", ticks, [value] * len(ticks))


def _ticks(begin: int, end: int) -> range:
    """Return the scrapes of a stretch, 7 s after each full step."""
    first = begin - begin % SCRAPE_SECONDS + 7
    return range(first, end, SCRAPE_SECONDS)


def _head(out: BinaryIO, name: str) -> None:
    out.write(f"# TYPE {name} unknown\n".encode())


def _lines(out: BinaryIO, series: str, ticks: range, values: list[bytes]) -> None:
    head = f"{series} ".encode()
    out.write(b"".join([b"%s%s %d\n" % (head, v, t) for v, t in zip(values, ticks, strict=True)]))
