"""A simulated history in a real Prometheus: the same series as live scrapes, and imported once."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from embedded.programs import wait_until
from embedded.prometheus import EmbeddedPrometheus
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.exporters.exporter import GrowingScenario, LiveExporter
from simulator.cluster.exporters.prometheus_history import import_history
from simulator.cluster.exporters.scraping import scrape_configs
from tests.embedded.test_prometheus import ask

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
LIVED_THROUGH_MIN = 50
"""Of the sixty pods alive, few are younger than a minute."""


def wall_clock() -> datetime:
    return datetime.now(UTC)


def test_history_and_live_scrapes_are_the_same_series(state: Path, programs: Path) -> None:
    now = wall_clock().replace(microsecond=0)
    month = now - timedelta(days=1)
    until = now - timedelta(minutes=1)
    scenario = demo_scenario(3, month, until + timedelta(days=1), scrape_interval_seconds=60)
    growing = GrowingScenario(lambda horizon: demo_scenario(3, month, horizon))
    reported: list[tuple[int, int]] = []
    with LiveExporter(growing, clock=wall_clock) as exporter:
        server = EmbeddedPrometheus(
            state / "prometheus",
            programs=programs,
            scrape_configs=scrape_configs(scenario.clusters, exporter.address, interval_seconds=1),
        )
        figures = import_history(
            server,
            scenario,
            begin_at=until - timedelta(hours=1),
            until=until,
            on_progress=lambda done, total: reported.append((done, total)),
        )
        server.start()
        is_continued = wait_until(
            lambda: _lived_through(server, until) > LIVED_THROUGH_MIN, timeout_seconds=20
        )
        server.stop()

    assert figures.samples > 10_000
    assert reported[0][0] == 0
    assert reported[-1][0] == reported[-1][1]
    assert is_continued


def _lived_through(server: EmbeddedPrometheus, until: datetime) -> int:
    """Return how many series of pods have samples of both sides, the imported and the scraped."""
    both = 0
    for series in ask(server, "kube_pod_info[20m]", time.time()):
        times = [at for at, _ in series["values"]]  # type: ignore[attr-defined]
        both += times[0] < until.timestamp() < times[-1]
    return both


def test_a_history_is_brought_in_once(state: Path, programs: Path) -> None:
    server = EmbeddedPrometheus(state / "prometheus", programs=programs)
    scenario = demo_scenario(3, MONTH, MONTH + timedelta(hours=3))
    until = MONTH + timedelta(hours=2)
    first = import_history(server, scenario, begin_at=MONTH, until=until)

    second = import_history(server, scenario, begin_at=MONTH, until=until)

    server.start()
    at = (MONTH + timedelta(hours=1)).timestamp()
    (alive,) = ask(server, 'count(kube_pod_info{cluster="hopper"})', at)
    expected = len(scenario.cluster("hopper").objects(MONTH + timedelta(hours=1)))
    assert first.samples > 0
    assert (second.samples, second.size_bytes) == (0, 0)
    assert abs(int(str(alive["value"][1])) - expected) <= 2  # type: ignore[index]
    assert list(server.folder.glob("history-*")) == []
    server.stop()
