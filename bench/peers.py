"""CloudKitty and we on the same pods in one Prometheus: rated pod-hours a second, one worker each.

A point is a pod-hour: opened, collected, sealed and charged by us; collected, rated and stored by
CloudKitty 25 with its own Prometheus collector, one price in its hashmap, and its SQL storage on
the same PostgreSQL (its other storages are servers of their own). That storage commits each row by
itself, so its rows, unlike ours, count before they have reached the disk. Its source fetcher names
the scopes, because its Prometheus fetcher lists only those that run at present. The pods are the
same twice: of 50 tenants, then of 1,000. What no rating can go below is printed beside: Prometheus'
answers to our queries thrown away, its plain sum, and COPY of our rows.
"""

import json
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import psycopg

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    cpu_seconds,
    ledger_database,
    measured,
    measurement,
    process_seconds,
    ratio,
    scaled,
)
from bench.kube_history import Stay, make_tenants, meter_only, write_objects
from bench.plain import ask_plainly, copy_plainly
from embedded.migrated import superuser_url
from embedded.postgres import OWNER, EmbeddedPostgres
from embedded.prometheus import EmbeddedPrometheus

WARM: Final = datetime(2026, 10, 5, tzinfo=UTC)
"""Neither is measured on its first hour."""
START: Final = WARM + timedelta(hours=1)
HOURS: Final = 2
AT: Final = START + timedelta(hours=HOURS, minutes=20)
EDGE_SECONDS: Final = 900
SCRAPE_SECONDS: Final = 60
PODS: Final = scaled(4_000)
TENANTS: Final = (50, 1_000)
PRICE: Final = Decimal("2.5")
METRIC: Final = "kube_pod_container_resource_requests"
TO_CLOUDKITTY_MIN: Final = {50: "5", 1_000: "29"}
"""Elapsed and by CPU, which are much the same: both sides wait for these two servers only."""
_NAMES: Final = uuid.UUID("8f1d7bc2-52cb-4f58-9f3a-0a4a6f6d1b11")

_CONFIGURATION: Final = """
[DEFAULT]
transport_url = fake://
[database]
connection = {database}
[collect]
collector = prometheus
metrics_conf = {metrics}
scope_key = namespace
[collector_prometheus]
prometheus_url = {prometheus}/api/v1
[fetcher]
backend = source
[storage]
version = 1
backend = sqlalchemy
"""
_METRICS: Final = f"""
metrics:
  {METRIC}:
    unit: GPU
    groupby: [namespace, uid]
    metadata: [pod, node, resource]
"""


@dataclass(frozen=True)
class Taken:
    """Seconds that one side took for all points: elapsed, and of CPU by who used it."""

    seconds: Decimal
    worker: Decimal
    postgres: Decimal
    prometheus: Decimal

    @property
    def cpu(self) -> Decimal:
        """Return the CPU of all three."""
        return self.worker + self.postgres + self.prometheus


@dataclass(frozen=True)
class Servers:
    """The servers that both sides use."""

    postgres: EmbeddedPostgres
    prometheus: EmbeddedPrometheus

    def cpu(self) -> tuple[Decimal, Decimal]:
        """Return the CPU seconds of PostgreSQL and of Prometheus so far."""
        postgres, prometheus = self.postgres.process, self.prometheus.process
        assert postgres is not None, "both were started"
        assert prometheus is not None, "both were started"
        return cpu_seconds(postgres.pid), cpu_seconds(prometheus.pid)


def run() -> Iterator[Figure]:
    """Yield the figures of both, or none where CloudKitty cannot be installed."""
    python = _peer_python()
    if python is None:
        print("peers is left out: CloudKitty cannot be installed here; see the lines above.")
        return
    with (
        ledger_database() as postgres,
        tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder,
    ):
        Path(folder).chmod(0o755)
        prometheus = _prometheus(Path(folder))
        try:
            servers = Servers(postgres, prometheus)
            yield from _measure(servers, python=python, folder=Path(folder))
        finally:
            prometheus.stop()


def _peer_python() -> str | None:
    """Return the Python that has CloudKitty, installing it when it is not there."""
    command = [str(ROOT / "bin" / "prepare"), "peers"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _measure(servers: Servers, *, python: str, folder: Path) -> Iterator[Figure]:
    points = PODS * HOURS
    url = servers.prometheus.url()
    for tenants in TENANTS:
        _make_ledger(tenants, url)
    for tenants in TENANTS:
        slug = _slug(tenants)
        ours = _rate_ours(slug, servers)
        theirs = _rate_theirs(tenants, servers, python=python, folder=folder)
        yield from _side("ledger", tenants, ours)
        yield from _side("cloudkitty", tenants, theirs)
        yield ratio(
            f"peers.ledger_to_cloudkitty_{tenants}_tenants",
            theirs.seconds / ours.seconds,
            Bound.AT_LEAST,
            TO_CLOUDKITTY_MIN[tenants],
        )
        # What else runs on the machine stretches this one less.
        yield ratio(
            f"peers.ledger_to_cloudkitty_by_cpu_{tenants}_tenants",
            theirs.cpu / ours.cpu,
            Bound.AT_LEAST,
            TO_CLOUDKITTY_MIN[tenants],
        )
        copied, rows = copy_plainly(slug)
        for limit, count, seconds in (
            ("prometheus_queries", points, ask_plainly(url, _queries(slug))),
            ("plain_sum", points, ask_plainly(url, _sums(slug))),
            ("plain_copy", rows, copied),
        ):
            name = f"peers.{limit}_points_per_second_{tenants}_tenants"
            yield measurement(name, count / seconds, "1/s")


def _side(name: str, tenants: int, taken: Taken) -> Iterator[Figure]:
    suffix = f"{tenants}_tenants"
    rate = PODS * HOURS / taken.seconds
    yield measurement(f"peers.{name}_points_per_second_{suffix}", rate, "1/s")
    for part in ("worker", "postgres", "prometheus"):
        yield measurement(f"peers.{name}_{part}_cpu_{suffix}", getattr(taken, part), "s")


# ---------------------------------------------------------------- GPU Ledger


def _rate_ours(slug: str, servers: Servers) -> Taken:
    """Open, meter, seal and charge the hours in this process."""
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.

    meter_only(slug)
    _open_and_charge(START + timedelta(minutes=20))
    before, worker = servers.cpu(), process_seconds()
    with measured() as watch:
        _open_and_charge(AT)
    worker = process_seconds() - worker
    after = servers.cpu()
    charges = Charge.objects.filter(cluster__slug=slug, window_start__gte=START)
    sealed = charges.values_list("unit_seconds", "unit_price")
    assert sum(seconds * price for seconds, price in sealed) == PODS * HOURS * 3_600 * PRICE
    return Taken(watch.seconds, worker, after[0] - before[0], after[1] - before[1])


def _open_and_charge(at: datetime) -> None:
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.
    from metering.adapters import usage_source  # noqa: PLC0415
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    open_due_windows(at=at)
    meter_due(worker=Worker(name="bench", source=source, actor=ACTOR), at=at)
    while accrue_pending(at=at, actor=ACTOR)[0]:
        pass


def _make_ledger(tenants: int, url: str) -> None:
    """Make a cluster and its tenants, all with one price."""
    from billing.services.pricing.assignments import assign_price_book  # noqa: PLC0415 - As above.
    from billing.services.pricing.prices import create_price_book, set_price  # noqa: PLC0415
    from metering.services.catalogue import ensure_catalogue  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.models import Organization  # noqa: PLC0415

    who: dict[str, Any] = {"actor": system_actor("bench"), "at": WARM}
    slug = _slug(tenants)
    ensure_catalogue(**who)
    book = create_price_book(slug=slug, name=slug, currency="EUR", **who)
    set_price(price_book=book, size="large", unit_price=PRICE, valid_from=WARM, **who)
    make_tenants(slug, tenants, prometheus_url=url, scrape_seconds=SCRAPE_SECONDS, at=WARM)
    for owner in Organization.objects.filter(slug__startswith=f"{slug}-"):
        assign_price_book(organization=owner, price_book=book, valid_from=WARM, **who)


def _queries(slug: str) -> list[tuple[str, str]]:
    """Return what was asked about the measured hours, each with its time."""
    from metering.models import MeteringWindow  # noqa: PLC0415 - Django is set up by now.

    windows = MeteringWindow.objects.filter(cluster__slug=slug, start_at__gte=START)
    evidence = windows.values_list("evidence", flat=True)
    return [(one["query"], one["at"]) for hour in evidence for one in hour]


def _sums(slug: str) -> list[tuple[str, str]]:
    """Return a query for each hour that adds up each tenant's GPUs and keeps nothing else."""
    query = f'sum by (namespace) (max_over_time({METRIC}{{cluster="{slug}"}}[1h]))'
    ends = (START + timedelta(hours=1 + hour) for hour in range(HOURS))
    return [(query, end.isoformat()) for end in ends]


# ---------------------------------------------------------------- CloudKitty


def _rate_theirs(tenants: int, servers: Servers, *, python: str, folder: Path) -> Taken:
    """Rate the same hours by CloudKitty in a process and a database of its own."""
    database = f"peers_{tenants}"
    with psycopg.connect(superuser_url(servers.postgres), autocommit=True) as connection:
        servers.postgres.create_database(connection, database)
        connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    url = servers.postgres.url(role=OWNER, database=database)
    metrics, configuration = folder / "metrics.yml", folder / "cloudkitty.conf"
    metrics.write_text(_METRICS, encoding="utf-8")
    written = _CONFIGURATION.format(
        database=url.replace("postgresql://", "postgresql+psycopg://"),
        metrics=metrics,
        prometheus=servers.prometheus.url(),
    )
    configuration.write_text(written, encoding="utf-8")
    asked = {
        "configuration": str(configuration),
        "metric": METRIC,
        "price": str(PRICE),
        "scopes": [f"{_slug(tenants)}-{number}" for number in range(tenants)],
        "start": int(START.timestamp()),
        "hours": HOURS,
    }
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [python, str(ROOT / "bench" / "peers_cloudkitty.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert _ask(process, asked) == "ready", _tail(log)
        before = servers.cpu()
        taken = _ask(process, "begin")
        after = servers.cpu()
        assert taken, _tail(log)
    with psycopg.connect(url) as connection:
        stored = "SELECT count(*), sum(rate) FROM rated_data_frames WHERE begin >= %s"
        found = connection.execute(stored, (START.replace(tzinfo=None),)).fetchone()
    assert found == (PODS * HOURS, float(PODS * HOURS * PRICE)), found
    seconds, worker = Decimal(taken["seconds"]), Decimal(taken["worker"])
    return Taken(seconds, worker, after[0] - before[0], after[1] - before[1])


def _ask(process: "subprocess.Popen[str]", question: object) -> Any:  # noqa: ANN401 - JSON.
    """Send a line to the process and return what its next line says; None when it has ended."""
    assert process.stdin is not None, "both are pipes"
    assert process.stdout is not None, "both are pipes"
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    return json.loads(answer) if answer else None


def _tail(log: IO[str]) -> str:
    log.seek(0)
    return log.read()[-2_000:]


# ---------------------------------------------------------------- Prometheus


def _slug(tenants: int) -> str:
    return f"tenants-{tenants}"


def _prometheus(folder: Path) -> EmbeddedPrometheus:
    """Return a server with both clusters' history in it."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415 - Fetches.

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    span = (
        int(WARM.timestamp()) - EDGE_SECONDS,
        int(START.timestamp()) + HOURS * 3_600 + EDGE_SECONDS,
    )
    for tenants in TENANTS:
        text = server.folder / "history.txt"
        stays = [
            Stay(
                gpu=number,
                begin=span[0],
                end=span[1],
                namespace=f"{_slug(tenants)}-{number % tenants}",
                uid=str(uuid.uuid5(_NAMES, f"{tenants}/{number}")),
            )
            for number in range(PODS)
        ]
        with text.open("wb") as out:
            cluster = f'cluster="{_slug(tenants)}"'
            write_objects(out, cluster, stays, span=span, scrape_seconds=SCRAPE_SECONDS)
            out.write(b"# EOF\n")
        server.import_openmetrics(text, name=_slug(tenants))
        text.unlink()
    server.start()
    return server
