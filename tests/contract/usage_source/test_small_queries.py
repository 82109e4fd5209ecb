"""A Prometheus that loads few samples at once is asked in parts, and answers the same."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import Sum

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus.devices import reading
from metering.models import DeviceUsage, DeviceWindow, UsageRecord
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.collection.windows import open_due_windows
from metering.services.devices.collection import DeviceSweep, collect_due_devices
from simulator.cluster.demo_tenancy import namespaces_of
from simulator.cluster.exporters.prometheus_history import import_history
from simulator.cluster.scenario import Scenario
from tenants.models import Cluster
from tests.contract.usage_source.conftest import HOURS, MONTH, ROOT, Seen
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR

DEVICES_REFUSED = 120
"""Less than the smallest part of any query about devices loads."""
SAMPLES_MAX = 1_500
"""Less than one query about devices loads here, and more than each sixteenth of its time does."""


@pytest.fixture(scope="module")
def server(scenario: Scenario) -> Iterator[EmbeddedPrometheus]:
    """Start a real Prometheus that refuses queries of more than some samples."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        pytest.skip(programs.reason)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(
        folder / "prometheus", programs=programs.folder, samples_max=SAMPLES_MAX
    )
    try:
        import_history(
            server,
            scenario,
            begin_at=MONTH - timedelta(hours=1),
            until=MONTH + timedelta(hours=HOURS),
        )
        server.start()
        yield server
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


@pytest.fixture
def small(server: EmbeddedPrometheus, scenario: Scenario) -> Seen:
    """Return the source that asks it."""
    return Seen(PrometheusUsageSource(), scenario, server.url())


def restart(server: EmbeddedPrometheus, *, samples_max: int) -> None:
    """Restart a server with another limit; its port is another, too."""
    server.stop()
    server.samples_max = samples_max
    server.start()
    Cluster.objects.update(prometheus_url=server.url())


def test_what_is_refused_as_a_whole_is_answered_in_parts(small: Seen, prometheus: Seen) -> None:
    small_figures = small.observe_devices("hopper", 1)
    whole_figures = prometheus.observe_devices("hopper", 1)

    assert len(small_figures.evidence) > len(whole_figures.evidence)
    assert small_figures.devices == whole_figures.devices
    assert small_figures.energies == whole_figures.energies
    assert small_figures.missing_figures == whole_figures.missing_figures
    assert small_figures.health.signals == whole_figures.health.signals
    assert sum(one.samples for one in small_figures.evidence if "DEV_GPU_UTIL" in one.query) >= (
        sum(one.samples for one in whole_figures.evidence if "DEV_GPU_UTIL" in one.query)
    )


@pytest.mark.parametrize("samples_max", [1_000, 10])
def test_devices_asked_in_parts_by_uuid_are_the_same(
    prometheus: Seen, monkeypatch: pytest.MonkeyPatch, samples_max: int
) -> None:
    whole = prometheus.observe_devices("hopper", 1)
    monkeypatch.setattr(reading, "DEVICE_SAMPLES_MAX", samples_max)

    parts = prometheus.observe_devices("hopper", 1)

    assert len(parts.evidence) >= 4 + 2 * 16
    assert (parts.devices, parts.energies) == (whole.devices, whole.energies)
    assert parts.missing_figures == whole.missing_figures


@pytest.mark.django_db
def test_an_hour_is_billed_while_every_query_about_its_devices_is_refused(
    server: EmbeddedPrometheus,
) -> None:
    project = make_project(make_organization())
    cluster = make_cluster(
        "hopper",
        metered_from=MONTH + timedelta(hours=1),
        prometheus_url=server.url(),
        selector_label="cluster",
        selector_value="hopper",
        scrape_interval_seconds=60,
    )
    for namespace in namespaces_of("hopper"):
        bind(cluster, namespace.name, project)
    at = MONTH + timedelta(hours=2, minutes=20)
    worker = Worker(name="worker-1", source=PrometheusUsageSource(), actor=ACTOR)
    open_due_windows(at=at)

    swept = meter_due(worker=worker, at=at)
    billed = UsageRecord.objects.aggregate(Sum("unit_seconds"))["unit_seconds__sum"]
    restart(server, samples_max=DEVICES_REFUSED)
    refused = collect_due_devices(worker=worker, at=at)
    restart(server, samples_max=SAMPLES_MAX)

    assert (swept.sealed, refused) == (1, DeviceSweep(retried=1))
    assert billed > 0
    devices = DeviceWindow.objects.get()
    assert (devices.state, "422" in devices.last_error) == ("due", True)
    later = devices.not_before + timedelta(hours=1)
    assert collect_due_devices(worker=worker, at=later) == DeviceSweep(sealed=1)
    assert DeviceUsage.objects.filter(window_id=devices.pk).exists()
    assert UsageRecord.objects.aggregate(Sum("unit_seconds"))["unit_seconds__sum"] == billed
