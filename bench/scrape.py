"""What a scrape of /metrics costs the web process that answers it: CPU, in a large estate.

Its own processor time is measured, not that of the database, and the least of some scrapes, as
tests/config/test_health.py does for readiness. Several processes have counted requests of many
routes before.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from bench.harness import Figure, against_plain_work, ledger_database, measurement, scaled

CLUSTERS: Final = scaled(100)
ORGANIZATIONS: Final = scaled(300)
HOURS: Final = 168
PROCESSES: Final = 2
"""As many as `manage.py serve` starts."""
ROUTES: Final = scaled(100)
"""Of some 490; the others are hardly asked for."""
SCRAPES: Final = 40
CPU_MAX: Final = "0.48"
"""Against the plain work."""
AT: Final = datetime(2026, 10, 1, tzinfo=UTC)


def run() -> Iterator[Figure]:
    """Make the estate, and scrape it."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        with ledger_database():
            yield from _measure()


def _measure() -> Iterator[Figure]:
    from django.conf import settings  # noqa: PLC0415 - Django is set up by now.
    from django.test import Client  # noqa: PLC0415 - As above.

    _make_estate()
    _count_requests()
    client, costs, lines = Client(), [], 0
    for _ in range(SCRAPES):
        begin = time.process_time_ns()
        answer = client.get("/metrics", SERVER_PORT=str(settings.METRICS_PORT))
        costs.append(time.process_time_ns() - begin)
        lines = answer.content.count(b"\n")
    yield measurement("scrape.lines", lines, "lines")
    cpu = Decimal(min(costs)) / 1_000_000_000
    yield from against_plain_work("scrape.cpu", cpu, CPU_MAX)


def _make_estate() -> None:
    """Make clusters with a week of hours, and organizations with quotas in them."""
    from metering.models import MeteringWindow  # noqa: PLC0415 - Django is set up by now.
    from quotas.models import EnforcementTarget  # noqa: PLC0415 - As above.
    from tenants.models import Cluster, Organization, Project  # noqa: PLC0415

    clusters = Cluster.objects.bulk_create(
        Cluster(
            slug=f"cluster-{number}",
            name="Cluster",
            metered_from=AT,
            is_watched=True,
            admission_mode="warn",
            created_at=AT,
        )
        for number in range(CLUSTERS)
    )
    MeteringWindow.objects.bulk_create(
        MeteringWindow(
            cluster=cluster,
            start_at=AT + timedelta(hours=hour),
            state="open" if hour % 2 else "collected",
            not_before=AT + timedelta(hours=hour + 1),
        )
        for cluster in clusters
        for hour in range(HOURS)
    )
    organizations = Organization.objects.bulk_create(
        Organization(slug=f"org-{number}", name="O", billing_currency="EUR", created_at=AT)
        for number in range(ORGANIZATIONS)
    )
    projects = Project.objects.bulk_create(
        Project(organization=organization, slug="llm", name="L", created_at=AT)
        for organization in organizations
    )
    EnforcementTarget.objects.bulk_create(
        EnforcementTarget(
            cluster=cluster,
            namespace=f"team-{number}",
            project=project,
            desired_generation=2,
            applied_generation=1,
            not_before=AT,
            foreign_quotas={"team-made": {"requests.nvidia.com/gpu": 1}},
        )
        for number, project in enumerate(projects)
        for cluster in clusters[number % 10 :: 10]
    )


def _count_requests() -> None:
    """Count requests of every route in each process, in this one last."""
    for _ in range(PROCESSES - 1):
        child = os.fork()
        if child == 0:
            _count_in_this_process()
            os._exit(0)
        os.waitpid(child, 0)
    _count_in_this_process()


def _count_in_this_process() -> None:
    from config.monitoring.metrics import (  # noqa: PLC0415 - Django is set up by now.
        REQUEST_SECONDS,
        REQUESTS,
        ROUTE_SECONDS,
    )

    for number in range(ROUTES):
        route = f"api/v1/resource-{number}/"
        REQUESTS.labels("GET", route, "200").inc()
        REQUEST_SECONDS.observe(0.02)
        ROUTE_SECONDS.labels(route).inc(0.02)
