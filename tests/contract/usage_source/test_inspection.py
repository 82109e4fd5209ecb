"""What a real Prometheus says of the series and labels that metering needs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus_inspection import (
    DEVICES,
    DEVICES_NAMED,
    GPU_NODES,
    GPU_REQUESTS,
    OWNERS,
    POD_METRICS,
    PRODUCTS,
    PrometheusInspection,
)
from simulator.cluster.scenario import Scenario
from tests.contract.usage_source.conftest import MONTH, SCRAPE_SECONDS, target_of

AT = MONTH + timedelta(hours=2)


@pytest.fixture
def inspection(scenario: Scenario, prometheus_url: str) -> PrometheusInspection:
    target = target_of(scenario.cluster("hopper"), prometheus_url)
    return PrometheusInspection(PrometheusUsageSource(), target)


def test_it_says_its_version_its_clock_and_how_long_it_keeps_samples(
    inspection: PrometheusInspection,
) -> None:
    status = inspection.status()

    assert status.version
    assert status.clock is not None
    assert abs(status.clock - datetime.now(UTC)) < timedelta(seconds=30)
    assert inspection.retention() is not None


def test_every_series_and_label_of_a_whole_setup_is_found(
    inspection: PrometheusInspection, scenario: Scenario
) -> None:
    series = inspection.series(at=AT)

    assert [name for name in POD_METRICS if not series[name]] == []
    assert series[GPU_REQUESTS] > 0
    assert series[GPU_NODES] == series[PRODUCTS] == len(scenario.cluster("hopper").nodes)
    assert series[DEVICES] == series[DEVICES_NAMED] > 0
    assert series[OWNERS] > 0


def test_another_selector_finds_nothing(scenario: Scenario, prometheus_url: str) -> None:
    target = target_of(scenario.cluster("hopper"), prometheus_url)
    other = replace(target, selector_label="cluster", selector_value="nowhere")

    series = PrometheusInspection(PrometheusUsageSource(), other).series(at=AT)

    assert set(series.values()) == {0}


def test_scrapes_show_their_interval_and_their_last_answer(
    inspection: PrometheusInspection,
) -> None:
    scrapes = inspection.scrapes(at=AT)
    later = inspection.scrapes(at=MONTH + timedelta(days=2))

    assert (scrapes.targets, scrapes.answering) == (1, 1)
    assert scrapes.interval_seconds == SCRAPE_SECONDS
    assert scrapes.age_seconds is not None
    assert 0 <= scrapes.age_seconds < SCRAPE_SECONDS
    assert (later.targets, later.interval_seconds, later.age_seconds) == (0, None, None)
