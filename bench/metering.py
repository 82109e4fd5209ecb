"""Metering a month of one cluster from a real Prometheus: beside Prometheus' own time.

Two workers share the work, as a Celery worker's two processes do, and lease windows from the same
table. The cluster is scraped every 120 s, as in the demo. The twin is a reader that sends the same
queries and throws the answers away.
"""

import multiprocessing
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

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
from bench.plain import ask_plainly
from embedded.prometheus import EmbeddedPrometheus

MONTH_START = datetime(2026, 10, 1, tzinfo=UTC)
WINDOWS = scaled(720)
AT = MONTH_START + timedelta(hours=WINDOWS, minutes=20)
SEED = 7
WORKERS = 2
TO_PROMETHEUS_MAX = "0.58"
STATEMENTS_MAX = 30
MORE = 4
"""Windows of the second sweep: what a sweep costs by itself falls out of the difference."""
QUERIES_MAX = 6
"""The twin asks the same: without it a product that asked more would have a slower twin."""


def run() -> Iterator[Figure]:
    """Yield the figures of metering."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        yield from _measure(Path(folder))


def _measure(folder: Path) -> Iterator[Figure]:
    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415 - Django is set up.
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415

    server, seconds = _prometheus(folder)
    try:
        yield measurement("metering.history_import", seconds, "s")
        _tenants(server.url())
        open_due_windows(at=AT)
        with measured() as watch:
            _meter_side_by_side()
        sealed = MeteringWindow.objects.filter(state="sealed").count()
        yield invariant("metering.windows_sealed", sealed, "windows", WINDOWS)
        yield measurement("metering.windows_per_second", Decimal(sealed) / watch.seconds, "1/s")
        records = UsageRecord.objects.count() / Decimal(WINDOWS)
        yield measurement("metering.records_per_window", records, "rows")
        queries = _queries()
        asked = Decimal(len(queries)) / WINDOWS
        yield invariant("metering.queries_per_window", asked, "queries", QUERIES_MAX, Bound.AT_MOST)
        yield ratio(
            "metering.to_prometheus",
            watch.seconds / ask_plainly(server.url(), queries),
            Bound.AT_MOST,
            TO_PROMETHEUS_MAX,
        )
        one, many = (_statements(AT + timedelta(hours=hours)) for hours in (1, 1 + MORE))
        yield invariant(
            "metering.statements_per_window",
            Decimal(many - one) / (MORE - 1),
            "statements",
            STATEMENTS_MAX,
            Bound.AT_MOST,
        )
    finally:
        server.stop()


def _statements(at: datetime) -> int:
    """Return how many statements one sweep takes."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 - As above.

    with CaptureQueriesContext(connection) as captured:
        _meter(at)
    return len(captured)


def _meter_side_by_side() -> None:
    """Meter due hours in as many processes as a worker has, each with its own connections."""
    from django.db import connections  # noqa: PLC0415 - Django is set up by now.

    connections.close_all()
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=_meter, args=(AT,)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0, worker.exitcode


def _meter(at: datetime) -> None:
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    meter_due(worker=Worker(name="bench", source=source, actor=system_actor("bench")), at=at)


def _queries() -> list[tuple[str, str]]:
    """Return the queries of all windows, each with its time."""
    from metering.models import MeteringWindow  # noqa: PLC0415 - Django is set up by now.

    evidence = MeteringWindow.objects.filter(state="sealed").values_list("evidence", flat=True)
    return [(one["query"], one["at"]) for window in evidence for one in window]


def _prometheus(folder: Path) -> tuple[EmbeddedPrometheus, Decimal]:
    """Return a server with the month in it, and the seconds the import took."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415
    from simulator.cluster.demo_scenario import demo_scenario  # noqa: PLC0415
    from simulator.cluster.exporters.prometheus_history import import_history  # noqa: PLC0415

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    until = AT + timedelta(hours=2 + MORE)
    scenario = demo_scenario(SEED, MONTH_START, until, outages=())
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    with measured() as watch:
        import_history(server, scenario, begin_at=MONTH_START - timedelta(hours=2), until=until)
    server.start()
    return server, watch.seconds


def _tenants(prometheus_url: str) -> None:
    """Make one organization and the cluster "hopper", with every namespace bound."""
    from simulator.cluster.demo_tenancy import (  # noqa: PLC0415 - As above.
        HOPPER,
        namespaces_of,
    )
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    actor = system_actor("bench")
    organization = create_organization(
        slug="bench", name="Bench", billing_currency="EUR", actor=actor, at=MONTH_START
    )
    project = create_project(
        organization=organization, slug="bench", name="Bench", actor=actor, at=MONTH_START
    )
    cluster = register_cluster(
        slug=HOPPER,
        name="Hopper",
        metered_from=MONTH_START,
        prometheus_url=prometheus_url,
        selector_label="cluster",
        selector_value=HOPPER,
        scrape_interval_seconds=120,
        user_label="billing_example_com_user",
        actor=actor,
        at=MONTH_START,
    )
    for namespace in namespaces_of(HOPPER):
        bind_namespace(
            cluster=cluster,
            namespace=namespace.name,
            project=project,
            valid_from=MONTH_START,
            actor=actor,
            at=MONTH_START,
        )
