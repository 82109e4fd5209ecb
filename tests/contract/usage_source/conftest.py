"""Six hours of the standard scenario, with an outage, seen by both sources."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedded.debian_programs import Programs
from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus, find_prometheus_3, find_victoria_metrics
from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import ClusterTarget, DeviceFigures, Observation, UsageSource
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.demo_lanes import AMPERE_NODES
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.exporters.prometheus_history import import_history
from simulator.cluster.exporters.prometheus_text import sanitize_name
from simulator.cluster.incidents import pending_pod, refused_pod
from simulator.cluster.scenario import (
    USER_LABEL,
    Outage,
    OutageKind,
    Pod,
    Scenario,
    SimulatedCluster,
)
from tests.support.usage_source import (
    completeness_setups,
    departure_setups,
    identity_setups,
)
from tests.support.usage_source import victoria_metrics as embedded
from tests.support.usage_source.holding import folder_of
from tests.support.usage_source.hostile_cases import running

ROOT = Path(__file__).resolve().parents[3]
MONTH = datetime(2026, 10, 1, tzinfo=UTC)
HOURS = 6
SCRAPE_SECONDS = 60
OUTAGE = Outage(MONTH + timedelta(hours=2, minutes=10), MONTH + timedelta(hours=2, minutes=35))
FAILURE = Outage(
    MONTH + timedelta(hours=4, minutes=55),
    MONTH + timedelta(hours=5, minutes=5),
    OutageKind.EXPORTERS,
)
"""Across an hour's end, and reported by `up` = 0 instead of by silence."""
REFUSED_AFTER = timedelta(hours=1, minutes=20)
PENDING_AFTER = timedelta(hours=3, minutes=30)
HOSTILE = (*completeness_setups.SETUPS, *departure_setups.SETUPS, *identity_setups.SETUPS)


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    """Return six hours of the standard scenario with both kinds of outage and a refused pod."""
    whole = demo_scenario(
        7,
        MONTH,
        MONTH + timedelta(hours=HOURS),
        outages=(OUTAGE, FAILURE),
        scrape_interval_seconds=SCRAPE_SECONDS,
    )
    # The demo has these two pods on later days.
    moved = refused_pod(
        7, MONTH + REFUSED_AFTER - timedelta(days=4, hours=10), AMPERE_NODES[0].name
    )
    waiting = replace(pending_pod(7, MONTH), created_at=MONTH + PENDING_AFTER)
    return replace(
        whole,
        clusters=(
            with_pod(whole.cluster("hopper"), waiting),
            with_pod(whole.cluster("ampere"), moved),
        ),
    )


def with_pod(cluster: SimulatedCluster, pod: Pod) -> SimulatedCluster:
    """Return a cluster with one pod more."""
    pods = sorted((*cluster.pods, pod), key=lambda one: (one.created_at, one.uid))
    return replace(cluster, pods=tuple(pods))


@pytest.fixture(scope="session")
def prometheus_url(scenario: Scenario) -> Iterator[str]:
    """Start a real Prometheus that holds the scenario's history."""
    with history_of(scenario, find_prometheus(ROOT / ".tools")) as url:
        yield url


@pytest.fixture(scope="session")
def prometheus_3_url(scenario: Scenario) -> Iterator[str]:
    """Start a real Prometheus 3 that holds the scenario's history."""
    with history_of(scenario, find_prometheus_3(ROOT / ".tools")) as url:
        yield url


@pytest.fixture(scope="session")
def hostile_history_url() -> Iterator[str]:
    """Start a real Prometheus that holds the history of every hostile set-up of several modules."""
    yield from running(HOSTILE)


@contextmanager
def history_of(scenario: Scenario, programs: Programs) -> Iterator[str]:
    """Run a Prometheus that holds a scenario's history, and yield its URL."""
    binaries = folder_of(programs)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=binaries)
    try:
        import_history(
            server,
            scenario,
            begin_at=MONTH - timedelta(hours=1),
            until=MONTH + timedelta(hours=HOURS),
        )
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def victoria_metrics_url(scenario: Scenario) -> Iterator[str]:
    """Start a real VictoriaMetrics that holds the scenario's history."""
    programs = folder_of(find_victoria_metrics(ROOT / ".tools"))
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    try:
        with embedded.victoria_metrics(
            folder,
            programs,
            scenario,
            begin_at=MONTH - timedelta(hours=1),
            until=MONTH + timedelta(hours=HOURS),
        ) as url:
            yield url
    finally:
        end_stale(folder)
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Seen:
    """A source, and how to ask it about the scenario."""

    source: UsageSource
    scenario: Scenario
    url: str

    def observe(
        self, cluster: str, hour: int, *, hours: int = 1, asked_after: timedelta | None = None
    ) -> Observation:
        """Return what the source saw of some hours, asked half an hour later at the latest."""
        target = target_of(self.scenario.cluster(cluster), self.url)
        return self.source.observe(target, **asked(hour, hours, asked_after))

    def observe_devices(self, cluster: str, hour: int, *, hours: int = 1) -> DeviceFigures:
        """Return what the source reports of devices over some hours."""
        target = target_of(self.scenario.cluster(cluster), self.url)
        return self.source.observe_devices(target, **asked(hour, hours))


def asked(hour: int, hours: int, asked_after: timedelta | None = None) -> dict[str, datetime]:
    """Return some hours of the month, and when they are asked about."""
    start_at = MONTH + timedelta(hours=hour)
    end_at = start_at + timedelta(hours=hours)
    return {
        "start_at": start_at,
        "end_at": end_at,
        "as_of": end_at + (asked_after or timedelta(minutes=30)),
    }


def target_of(cluster: SimulatedCluster, url: str) -> ClusterTarget:
    """Return a cluster as metering knows it."""
    return ClusterTarget(
        slug=cluster.slug,
        prometheus_url=url,
        scrape_interval_seconds=cluster.scrape_interval_seconds,
        selector_label="cluster",
        selector_value=cluster.slug,
        user_label=sanitize_name(USER_LABEL),
    )


@pytest.fixture
def simulated(scenario: Scenario) -> Seen:
    """Return the simulated source."""
    return Seen(SimulatedUsageSource(scenario=scenario), scenario, "")


@pytest.fixture
def prometheus(scenario: Scenario, prometheus_url: str) -> Seen:
    """Return the source on the real Prometheus."""
    return Seen(PrometheusUsageSource(), scenario, prometheus_url)


@pytest.fixture
def prometheus_3(scenario: Scenario, prometheus_3_url: str) -> Seen:
    """Return the source on the real Prometheus 3."""
    return Seen(PrometheusUsageSource(), scenario, prometheus_3_url)


@pytest.fixture
def victoria_metrics(scenario: Scenario, victoria_metrics_url: str) -> Seen:
    """Return the source on the real VictoriaMetrics."""
    return Seen(PrometheusUsageSource(), scenario, victoria_metrics_url)


@pytest.fixture(params=["prometheus", "simulated"])
def seen(request: pytest.FixtureRequest) -> Seen:
    """Return each source in turn."""
    found: Seen = request.getfixturevalue(request.param)
    return found
