"""Metrics: true at the time of the scrape, bounded in number, silent about tenants."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from metering.models import ExceptionKind, MeteringException, MeteringWindow, WindowState
from quotas.models import EnforcementTarget
from tenants.models import Cluster
from tests.support.builders import MONTH_START, make_cluster, make_organization, make_project

QUERIES = 20
"""One for most gauges, two more for bypasses and one for the clusters, whatever the tables hold."""

PORT = str(settings.METRICS_PORT)
Sample = tuple[str, tuple[tuple[str, str], ...]]


def scrape() -> dict[Sample, float]:
    response = Client().get("/metrics", SERVER_PORT=PORT)
    assert response.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def make_window(cluster: Cluster, hour: int, **fields: object) -> MeteringWindow:
    start_at = MONTH_START + timedelta(hours=hour)
    defaults: dict[str, object] = {"not_before": start_at + timedelta(hours=1)}
    return MeteringWindow.objects.create(
        cluster=cluster, start_at=start_at, **{**defaults, **fields}
    )


@pytest.mark.django_db
def test_metrics_answer_on_their_own_port_and_nothing_else_does() -> None:
    client = Client()
    own: dict[str, Any] = {"SERVER_PORT": PORT, "HTTP_HOST": "anything"}

    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", HTTP_HOST=f"localhost:{PORT}").status_code == 404
    assert client.get("/metrics", **own).status_code == 200
    assert client.post("/metrics", **own).status_code == 405
    assert "no-store" in client.get("/metrics", **own)["Cache-Control"]
    for path in ("/admin/login/", "/api/v1/schema/", "/healthz", "/readyz"):
        assert client.get(path, **own).status_code == 404


@pytest.mark.django_db
def test_a_host_header_on_a_unix_socket_is_no_port() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environ: dict[str, Any] = {"SERVER_PORT": PORT, "gunicorn.socket": ours}
        answer = Client().get("/metrics", **environ)

    assert answer.status_code == 404


@pytest.mark.django_db
def test_an_empty_service_has_gauges_at_zero() -> None:
    assert scrape()["gpu_ledger_unaccrued_windows", ()] == 0
    assert scrape()["gpu_ledger_unaccrued_corrections", ()] == 0


@pytest.mark.django_db
def test_gauges_say_what_stands_in_the_ledgers() -> None:
    hopper = make_cluster("hopper")
    open_window = make_window(hopper, 0)
    make_window(hopper, 1)
    sealed_at = {"sealed_at": MONTH_START, "as_of": MONTH_START}
    make_window(hopper, 2, state=WindowState.SEALED, **sealed_at)
    MeteringException.objects.create(
        cluster=hopper,
        window=open_window,
        window_start=open_window.start_at,
        kind=ExceptionKind.UNKNOWN_DEVICE,
        subject="pod",
        summary="No rule.",
        remedy="Add one.",
        created_at=MONTH_START,
    )
    EnforcementTarget.objects.create(
        cluster=hopper,
        namespace="team-a",
        project=make_project(make_organization("acme")),
        desired_generation=2,
        applied_generation=1,
        not_before=MONTH_START,
        drifts_repaired=3,
        foreign_quotas={"team-made": {"requests.nvidia.com/gpu": 1}},
    )

    found = scrape()

    hopper_label = ("cluster", "hopper")
    assert found["gpu_ledger_windows", (hopper_label, ("state", "open"))] == 2
    assert found["gpu_ledger_windows", (hopper_label, ("state", "sealed"))] == 1
    assert found["gpu_ledger_open_exceptions", (("kind", "unknown_device"),)] == 1
    assert found["gpu_ledger_unapplied_enforcement_targets", (hopper_label,)] == 1
    assert found["gpu_ledger_quota_drifts_repaired", (hopper_label,)] == 3
    assert found["gpu_ledger_namespaces_with_foreign_quotas", (hopper_label,)] == 1
    assert found["gpu_ledger_unaccrued_windows", ()] == 1
    assert found["gpu_ledger_reservations", (hopper_label, ("state", "held"))] == 0
    assert found["gpu_ledger_quota_counter_drift_units", ()] == 0
    age_seconds = found["gpu_ledger_oldest_due_window_age_seconds", (hopper_label,)]
    expected = (datetime.now(tz=UTC) - MONTH_START - timedelta(hours=1)).total_seconds()
    assert expected - 30 < age_seconds <= expected


@pytest.mark.django_db
def test_statements_do_not_grow_with_clusters_and_windows() -> None:
    for number in range(4):
        cluster = make_cluster(f"cluster-{number}")
        for hour in range(5):
            make_window(cluster, hour)

    with CaptureQueriesContext(connection) as queries:
        Client().get("/metrics", SERVER_PORT=PORT)
    assert len(queries) == QUERIES


@pytest.mark.django_db
def test_no_organization_project_or_namespace_is_named() -> None:
    project = make_project(make_organization("umbrella"), "virus")
    EnforcementTarget.objects.create(
        cluster=make_cluster(),
        namespace="raccoon",
        project=project,
        desired_generation=1,
        not_before=MONTH_START,
    )

    text = Client().get("/metrics", SERVER_PORT=PORT).content.decode()

    assert not any(name in text for name in ("umbrella", "virus", "raccoon"))


@pytest.mark.django_db
def test_requests_are_counted_by_route_not_by_path() -> None:
    def count(found: dict[Sample, float], route: str, status: str) -> float:
        labels = (("method", "GET"), ("route", route), ("status", status))
        return found.get(("gpu_ledger_http_requests_total", labels), 0)

    before = scrape()
    client = Client()
    client.get("/healthz")
    for number in range(3):
        client.get(f"/no/such/page-{number}")
    after = scrape()

    assert count(after, "healthz", "200") - count(before, "healthz", "200") == 1
    assert count(after, "unmatched", "404") - count(before, "unmatched", "404") == 3
    assert not any("page-" in str(sample) for sample in after)


@pytest.mark.django_db
def test_counts_of_all_processes_are_added_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    # This process began without the folder, so the folder's sum, which is empty, is what counts.
    found = scrape()

    assert not any(name == "gpu_ledger_http_requests_total" for name, _ in found)
    assert ("gpu_ledger_unaccrued_windows", ()) in found
