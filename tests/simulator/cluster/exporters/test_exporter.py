"""The live exporter answers real scrapes for the present, and grows its world as time passes."""

import http.client
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.exporters.exporter import (
    CONTENT_TYPE,
    GrowingScenario,
    LiveExporter,
)
from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.exporters.object_series import QuotaStatus
from simulator.cluster.scenario import Scenario
from tests.simulator.conftest import MONTH, SEED
from tests.support.simulator.parsing import named


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


class Worlds:
    """Makes scenarios, and remembers until when."""

    def __init__(self) -> None:
        self.horizons: list[datetime] = []

    def make(self, until: datetime) -> Scenario:
        self.horizons.append(until)
        return demo_scenario(SEED, MONTH, until)


@pytest.fixture
def clock() -> Clock:
    return Clock(MONTH + timedelta(days=2))


@pytest.fixture
def worlds() -> Worlds:
    return Worlds()


@pytest.fixture
def exporter(clock: Clock, worlds: Worlds) -> Iterator[LiveExporter]:
    def quotas(slug: str) -> tuple[QuotaStatus, ...]:
        return (QuotaStatus(slug, "gpus", {"requests.nvidia.com/gpu": 8}, {}),)

    with LiveExporter(GrowingScenario(worlds.make), clock=clock, quotas=quotas) as running:
        yield running


def get(exporter: LiveExporter, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type") or "", body


@pytest.mark.parametrize("slug", ["hopper", "ampere"])
def test_it_answers_what_the_exposition_says_of_now(
    exporter: LiveExporter, clock: Clock, slug: str
) -> None:
    cluster = demo_scenario(SEED, MONTH, MONTH + timedelta(days=9)).cluster(slug)
    expected = ClusterExposition(cluster)

    devices = get(exporter, f"/{slug}/dcgm/metrics")
    objects = get(exporter, f"/{slug}/kube-state-metrics/metrics")

    assert devices == (200, CONTENT_TYPE, expected.dcgm_text(clock.at))
    assert objects[0] == 200
    assert objects[2].startswith(expected.kube_state_metrics_text(clock.at))


def test_time_goes_on(exporter: LiveExporter, clock: Clock) -> None:
    first = get(exporter, "/hopper/kube-state-metrics/metrics")[2]
    clock.at += timedelta(hours=5)

    second = get(exporter, "/hopper/kube-state-metrics/metrics")[2]

    uids = [{line["uid"] for line in named(text, "kube_pod_info")} for text in (first, second)]
    assert uids[0] != uids[1]
    assert uids[0] & uids[1]


def test_the_quotas_of_the_cluster_are_shown(exporter: LiveExporter) -> None:
    text = get(exporter, "/hopper/kube-state-metrics/metrics")[2]

    assert [line["namespace"] for line in named(text, "kube_resourcequota")] == ["hopper"]


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/turing/dcgm/metrics", "/hopper/dcgm", "/hopper/other/metrics", "/a/b/c/d"],
)
def test_elsewhere_is_nothing(exporter: LiveExporter, path: str) -> None:
    assert get(exporter, path)[0] == 404


def test_a_query_string_is_passed_over(exporter: LiveExporter) -> None:
    assert get(exporter, "/hopper/dcgm/metrics?collect[]=x")[0] == 200


def test_the_world_is_made_once_and_grown_before_its_end(
    exporter: LiveExporter, clock: Clock, worlds: Worlds
) -> None:
    for hours in (0, 1, 40, 71):
        clock.at = MONTH + timedelta(days=2, hours=hours)
        get(exporter, "/hopper/dcgm/metrics")
    assert len(worlds.horizons) == 1
    clock.at = MONTH + timedelta(days=5, hours=1)
    get(exporter, "/hopper/dcgm/metrics")

    assert len(worlds.horizons) == 2
    assert worlds.horizons[1] - clock.at >= timedelta(days=1)


def test_growing_changes_nothing_of_the_present(worlds: Worlds) -> None:
    at = MONTH + timedelta(days=3)
    near = GrowingScenario(worlds.make).expositions(at)["hopper"].dcgm_text(at)

    grown = GrowingScenario(worlds.make)
    grown.expositions(at + timedelta(days=8))

    assert grown.expositions(at)["hopper"].dcgm_text(at) == near


def test_many_scrape_at_once(exporter: LiveExporter) -> None:
    answers: list[tuple[int, str, str]] = []

    def scrape() -> None:
        answers.append(get(exporter, "/ampere/dcgm/metrics"))

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({answer[2] for answer in answers}) == 1
    assert [answer[0] for answer in answers] == [200] * 8


def test_the_port_is_given_back(clock: Clock, worlds: Worlds) -> None:
    first = LiveExporter(GrowingScenario(worlds.make), clock=clock)
    port = first.port
    first.start()
    first.stop()

    second = LiveExporter(GrowingScenario(worlds.make), clock=clock, port=port)

    assert second.address == f"127.0.0.1:{port}"
    second.stop()
