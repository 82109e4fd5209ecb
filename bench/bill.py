"""Six hours of 4,000 pods from a real Prometheus to their charges: CPU of a rated pod-hour.

A pod-hour is opened, collected, sealed and charged; device figures are work of its own and are left
out. The same pods are metered twice, for 50 organizations and for 1,000, each with a project. The
CPU is of this process, of PostgreSQL's processes and of Prometheus, as the kernel counts it.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)
from bench.plain import BILL, ask_plainly, fixed_queries
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
AT: Final = START + timedelta(hours=HOURS, minutes=20)
SCRAPE_SECONDS: Final = 60
PODS: Final = scaled(4_000)
GPUS_PER_NODE: Final = 8
POD_HOURS: Final = 2
"""Every tenth GPU serves three pods one after another, the others one pod all the time."""
NAMESPACES: Final = scaled(1_000)
USERS: Final = scaled(200)
TENANTS: Final = (scaled(50), NAMESPACES)
WARM: Final = "warm"
"""A cluster whose first hour is metered before, so that no figure holds what is done once."""
POINTS: Final = PODS * HOURS
SLOWER_MAX: Final = "1.1"
LIMITS: Final = {"ours": "1", "prometheus": "0.6"}
"""CPU of Python and PostgreSQL, and of Prometheus, to that of Prometheus for the fixed queries."""
BYTES_MAX: Final = Decimal(250)
"""Of a usage record with its indexes, some of them filled in the middle by the second run."""
EDGE_SECONDS: Final = 900
NAMES: Final = uuid.UUID("5b1d8f0e-3c52-4b7e-9a7f-0c1f5f7f2a11")
KSM: Final = 'job="kube-state-metrics",instance="10.42.0.9:8080"'
DCGM: Final = 'job="nvidia-dcgm-exporter",container="nvidia-dcgm-exporter"'
CLUSTER: Final = 'cluster="bill"'
USER_LABEL: Final = "billing_example_com_user"
LABELS: Final = (
    'label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3",label_nvidia_com_gpu_count="8",'
    'label_nvidia_com_gpu_replicas="1",label_nvidia_com_gpu_sharing_strategy="none"'
)


@dataclass(frozen=True)
class Cpu:
    """CPU seconds that were used so far, or between two moments."""

    python: Decimal
    postgres: Decimal
    prometheus: Decimal

    def __sub__(self, other: Self) -> "Cpu":
        """Return what was used between two moments."""
        return Cpu(
            self.python - other.python,
            self.postgres - other.postgres,
            self.prometheus - other.prometheus,
        )

    def milliseconds(self) -> dict[str, Decimal]:
        """Return milliseconds of a pod-hour, by program."""
        used = {
            "python": self.python,
            "postgres": self.postgres,
            "ours": self.python + self.postgres,
            "prometheus": self.prometheus,
        }
        return {name: seconds * 1000 / POINTS for name, seconds in used.items()}


@dataclass(frozen=True)
class Lifetime:
    """One pod on one GPU, epoch seconds."""

    gpu: int
    begin: int
    end: int

    @property
    def node(self) -> str:
        """Return the GPU's node."""
        return f"gpu-{self.gpu // GPUS_PER_NODE:03d}"

    @property
    def namespace(self) -> str:
        """Return the pod's namespace."""
        return f"team-{self.gpu % NAMESPACES}"

    @property
    def pod(self) -> str:
        """Return the pod's labels as kube-state-metrics exports them."""
        uid = uuid.uuid5(NAMES, f"{self.gpu}/{self.begin}")
        return f'{KSM},namespace="{self.namespace}",pod="{self.name}",uid="{uid}"'

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return f"train-{self.gpu}-{self.begin % 1_000_000}"


def run() -> Iterator[Figure]:
    """Yield the figures of the bill."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        server = _prometheus(Path(folder))
        try:
            assert server.process is not None, "the server was started"
            yield from _measure(server.url(), prometheus=server.process.pid)
        finally:
            server.stop()


def _measure(url: str, *, prometheus: int) -> Iterator[Figure]:
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415

    for tenants in (1, *TENANTS):
        _tenants(tenants, url)
    _bill(WARM, at=START + timedelta(hours=1, minutes=20))
    fixed = _fixed_cpu(url, prometheus)
    yield measurement("bill.fixed_queries_cpu", fixed, "ms/pod-hour")
    seconds: dict[int, Decimal] = {}
    for tenants in TENANTS:
        slug, begin = f"tenants-{tenants}", _cpu(prometheus)
        with measured() as watch:
            _bill(slug, at=AT)
        used = (_cpu(prometheus) - begin).milliseconds()
        seconds[tenants] = watch.seconds
        for name, limit in LIMITS.items():
            share = used[name] / fixed
            yield ratio(
                f"bill.{name}_to_fixed_queries_{tenants}_tenants", share, Bound.AT_MOST, limit
            )
        for name, milliseconds in used.items():
            yield measurement(f"bill.{name}_cpu_{tenants}_tenants", milliseconds, "ms/pod-hour")
        rate = f"bill.pod_hours_per_second_{tenants}_tenants"
        yield measurement(rate, POINTS / watch.seconds, "1/s")
        records = UsageRecord.objects.filter(cluster__slug=slug)
        yield invariant(f"bill.pod_hours_{tenants}_tenants", records.count(), "", POINTS)
        charges = Charge.objects.filter(cluster__slug=slug)
        yield measurement(f"bill.charges_{tenants}_tenants", charges.count(), "charges")
        sums = {sum(rows.values_list("unit_seconds", flat=True)) for rows in (records, charges)}
        yield invariant(f"bill.not_charged_{tenants}_tenants", len(sums) - 1, "", 0)
    assert not (left := MeteringWindow.objects.exclude(state="sealed").values_list("state")), left
    few, many = map(seconds.__getitem__, TENANTS)
    yield ratio("bill.more_tenants_to_fewer", many / few, Bound.AT_MOST, SLOWER_MAX)
    yield from _sizes()


def _fixed_cpu(url: str, prometheus: int) -> Decimal:
    """Return milliseconds of Prometheus' CPU a pod-hour for the fixed queries, hour by hour."""
    hours = [START + timedelta(hours=number) for number in range(HOURS)]
    begin = _cpu(prometheus)
    ask_plainly(url, [query for hour in hours for query in fixed_queries("bill", hour, BILL)])
    return (_cpu(prometheus) - begin).milliseconds()["prometheus"]


def _bill(slug: str, *, at: datetime) -> None:
    """Open, collect, seal and charge one cluster's hours in this process."""
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.
    from metering.adapters import usage_source  # noqa: PLC0415
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from tenants.models import Cluster  # noqa: PLC0415

    Cluster.objects.exclude(slug=slug).update(state="closed")
    Cluster.objects.filter(slug=slug).update(state="active")
    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    meter_due(worker=Worker(name="bench", source=source, actor=ACTOR), at=at)
    accrue_pending(at=at, actor=ACTOR)


def _sizes() -> Iterator[Figure]:
    """Yield the bytes of a usage record, and of its parts."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from metering.models import UsageRecord  # noqa: PLC0415

    records = UsageRecord.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(_BYTES)
        for name, size in cursor.fetchall():
            of_record = round(Decimal(size) / records, 1)
            if name == "metering_usagerecord":
                yield Figure("bill.bytes", of_record, "B/record", Bound.AT_MOST, BYTES_MAX)
            else:
                yield measurement(f"bill.bytes.{name}", of_record, "B/record")


_BYTES: Final = """
WITH parts AS (
  SELECT relid FROM pg_partition_tree('metering_usagerecord') WHERE isleaf
   UNION ALL SELECT 'metering_usagefact'::regclass
)
SELECT regexp_replace(parts.relid::regclass::text, '_20[0-9_]+$', '') AS name,
       sum(pg_total_relation_size(parts.relid))
  FROM parts GROUP BY 1
 UNION ALL SELECT regexp_replace(i.indexrelid::regclass::text, '_20[0-9]{2}_[0-9]{2}', ''),
       sum(pg_relation_size(i.indexrelid))
  FROM parts JOIN pg_index i ON i.indrelid = parts.relid GROUP BY 1
 ORDER BY 1
"""


def _cpu(prometheus: int) -> Cpu:
    """Return the CPU seconds used so far."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((backend,),) = cursor.fetchall()
    postmaster = int(_stat(backend)[1])
    family = [pid for pid in _processes() if int(_stat(pid)[1]) == postmaster]
    return Cpu(
        python=Decimal(time.process_time_ns()) / 1_000_000_000,
        # Of backends that have ended, the postmaster holds what they used.
        postgres=sum((_ticks_of(pid, 11, 13) for pid in family), _ticks_of(postmaster, 11, 15)),
        prometheus=_ticks_of(prometheus, 11, 13),
    )


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; a parent of 0 for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]


def _ticks_of(pid: int, first: int, end: int) -> Decimal:
    return Decimal(sum(map(int, _stat(pid)[first:end]))) / os.sysconf("SC_CLK_TCK")


def _tenants(count: int, prometheus_url: str) -> None:
    """Make a cluster and so many organizations that share its namespaces, all with one price."""
    from billing.services.pricing.assignments import (  # noqa: PLC0415 - Django is set up by now.
        assign_price_book,
    )
    from billing.services.pricing.prices import create_price_book, set_price  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    by: dict[str, Any] = {"actor": system_actor("bench"), "at": START}
    name = WARM if count == 1 else f"tenants-{count}"
    cluster = register_cluster(
        slug=name,
        name=name,
        metered_from=START,
        prometheus_url=prometheus_url,
        selector_label="cluster",
        selector_value="bill",
        scrape_interval_seconds=SCRAPE_SECONDS,
        user_label=USER_LABEL,
        **by,
    )
    book = create_price_book(slug=name, name="Book", currency="EUR", **by)
    set_price(price_book=book, size="large", unit_price=Decimal("2.5"), valid_from=START, **by)
    projects = []
    for number in range(count):
        slug = f"t{count}-{number}"
        owner = create_organization(slug=slug, name=slug, billing_currency="EUR", **by)
        assign_price_book(organization=owner, price_book=book, valid_from=START, **by)
        projects.append(create_project(organization=owner, slug=slug, name=slug, **by))
    for number in range(NAMESPACES):
        project = projects[number % count]
        namespace = f"team-{number}"
        bind_namespace(
            cluster=cluster, namespace=namespace, project=project, valid_from=START, **by
        )


def _prometheus(folder: Path) -> EmbeddedPrometheus:
    """Return a server that holds the history."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415 - Fetches.

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    text = server.folder / "history.txt"
    with text.open("wb") as out:
        _write(out)
    server.import_openmetrics(text, name="bill")
    text.unlink()
    server.start()
    return server


def _lifetimes() -> list[Lifetime]:
    begin = int(START.timestamp())
    all_seconds, part = HOURS * 3600, POD_HOURS * 3600
    return [
        Lifetime(
            gpu=gpu,
            begin=begin + first - (EDGE_SECONDS if first == 0 else 0),
            end=begin + last + (EDGE_SECONDS if last == all_seconds else 0),
        )
        for gpu in range(PODS)
        for length in (part if gpu % 10 == 0 else all_seconds,)
        for first, last in ((at, at + length) for at in range(0, all_seconds, length))
    ]


def _write(out: BinaryIO) -> None:
    """Write the history as OpenMetrics, family by family."""
    pods = _lifetimes()
    for name, value, labels_of in (
        ("kube_pod_container_resource_requests", "1", _requested),
        ("kube_pod_info", "1", _info),
        ("kube_pod_labels", "1", _labels),
        ("kube_pod_created", "", lambda _: ""),
        ("kube_pod_status_scheduled_time", "", lambda _: ""),
    ):
        out.write(f"# TYPE {name} unknown\n".encode())
        for pod in pods:
            series = f"{name}{{{CLUSTER},{pod.pod}{labels_of(pod)}}}"
            _lines(out, series, _ticks(pod.begin, pod.end), value or str(pod.begin))
    out.write(b"# TYPE kube_pod_status_phase unknown\n")
    for pod in pods:
        for phase in ("Failed", "Succeeded"):
            series = f'kube_pod_status_phase{{{CLUSTER},{pod.pod},phase="{phase}"}}'
            _lines(out, series, _ticks(pod.begin, pod.end), "0")
    _write_nodes(out)
    out.write(b"# EOF\n")


def _requested(pod: Lifetime) -> str:
    return f',node="{pod.node}",container="main",resource="nvidia_com_gpu",unit="integer"'


def _info(pod: Lifetime) -> str:
    return f',node="{pod.node}",created_by_kind="Job",host_ip="10.0.0.1",priority_class="gpu"'


def _labels(pod: Lifetime) -> str:
    user = f'label_{USER_LABEL}="user-{pod.gpu % USERS}"'
    return f',label_app="train-{pod.gpu % NAMESPACES}",{user}'


def _write_nodes(out: BinaryIO) -> None:
    begin = int(START.timestamp())
    ticks = _ticks(begin - EDGE_SECONDS, begin + HOURS * 3600 + EDGE_SECONDS)
    nodes = [f"gpu-{number:03d}" for number in range(-(-PODS // GPUS_PER_NODE))]
    offers = [f'{KSM},node="{node}",resource="nvidia_com_gpu",unit="integer"' for node in nodes]
    exporters = [f'{DCGM},pod="dcgm-{node}",instance="{node}:9400"' for node in nodes]
    devices = [
        f'{exporter},hostname="{node}",gpu="{gpu}",modelName="NVIDIA H100 80GB HBM3"'
        f',UUID="GPU-{uuid.uuid5(NAMES, f"{node}/{gpu}")}"'
        for node, exporter in zip(nodes, exporters, strict=True)
        for gpu in range(GPUS_PER_NODE)
    ]
    for name, series, value in (
        ("kube_node_status_allocatable", offers, str(GPUS_PER_NODE)),
        ("kube_node_labels", [f'{KSM},node="{node}",{LABELS}' for node in nodes], "1"),
        ("up", [KSM, *exporters], "1"),
        ("DCGM_FI_DEV_GPU_UTIL", devices, "87"),
    ):
        out.write(f"# TYPE {name} unknown\n".encode())
        for labels in series:
            _lines(out, f"{name}{{{CLUSTER},{labels}}}", ticks, value)


def _ticks(begin: int, end: int) -> range:
    """Return the scrapes of a lifetime, 7 s after each full step."""
    return range(begin - begin % SCRAPE_SECONDS + 7, end, SCRAPE_SECONDS)


def _lines(out: BinaryIO, series: str, ticks: range, value: str) -> None:
    out.write("".join([f"{series} {value} {at}.347\n" for at in ticks]).encode())
