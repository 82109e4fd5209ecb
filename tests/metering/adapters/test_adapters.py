from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from metering.adapters import usage_source
from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import ClusterTarget
from simulator.cluster.demo_scenario import demo_scenario

BACKEND = "metering.adapters.prometheus.PrometheusUsageSource"


def test_a_setting_names_the_source_and_its_options() -> None:
    source = usage_source({"BACKEND": BACKEND, "OPTIONS": {"resources": "amd_com_gpu"}})

    assert isinstance(source, PrometheusUsageSource)


def test_options_may_be_left_out() -> None:
    assert isinstance(usage_source({"BACKEND": BACKEND}), PrometheusUsageSource)


def test_an_unknown_source_stops_the_process() -> None:
    with pytest.raises(ImportError):
        usage_source({"BACKEND": "metering.adapters.nowhere.NoSource"})


def test_an_unknown_option_stops_the_process_and_names_the_variable() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^USAGE_SOURCE_OPTIONS: .*speed"):
        usage_source({"BACKEND": BACKEND, "OPTIONS": {"speed": "high"}})


def test_the_simulated_source_meters_the_world_its_options_name() -> None:
    options = {"seed": 5, "month_start": "2026-09-30T22:00:00+00:00"}

    source = usage_source(
        {"BACKEND": "simulator.adapters.usage_source.SimulatedUsageSource", "OPTIONS": options}
    )

    start_at = datetime(2026, 10, 2, 9, tzinfo=UTC)
    end_at = start_at + timedelta(hours=1)
    seen = source.observe(
        ClusterTarget(slug="hopper", scrape_interval_seconds=120),
        start_at=start_at,
        end_at=end_at,
        as_of=end_at + timedelta(minutes=15),
    )
    world = demo_scenario(5, datetime(2026, 9, 30, 22, tzinfo=UTC), end_at)
    held = {pod.uid for pod in world.cluster("hopper").pods if pod.true_seconds(start_at, end_at)}
    assert len(held & {pod.uid for pod in seen.pods}) == len(held) > 10
