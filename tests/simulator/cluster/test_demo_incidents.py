"""The demo's broken GPU and its use without a price: seen by both sources, in no invoice."""

import io
from datetime import timedelta

from metering.domain.devices.error_tables import ROW_REMAP_FAILURE
from metering.protocols import ClusterTarget
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.demo_scenario import demo_scenario, standard_failure
from simulator.cluster.exporters.openmetrics import HistorySlice, HistoryWriter
from simulator.cluster.incidents import UNPRICED_NAME
from tests.simulator.conftest import MONTH, SEED
from tests.support.simulator.parsing import read_lines

FAILURE = standard_failure(MONTH)
HOUR = timedelta(hours=1)
START = FAILURE.begin_at.replace(minute=0)


def test_the_history_shows_the_broken_gpu_from_its_failure_on() -> None:
    out = io.BytesIO()
    world = demo_scenario(SEED, MONTH, START + 2 * HOUR)

    HistoryWriter(world, is_sparse=True).write(HistorySlice(START, START + HOUR), out)

    lines = [one for one in read_lines(out.getvalue().decode()) if one.name == ROW_REMAP_FAILURE]
    assert {(one["UUID"], one["Hostname"] or one["hostname"], one.value) for one in lines} == {
        (FAILURE.gpu_uuid, "hopper-whole-2", "1")
    }
    assert min(one.second or 0 for one in lines) >= FAILURE.begin_at.timestamp()
    assert len(lines) == 10


def test_the_simulated_source_reports_it_too() -> None:
    source = SimulatedUsageSource(seed=SEED, month_start=MONTH)
    target = ClusterTarget(slug="hopper", scrape_interval_seconds=120)

    def signals_of(hour: int) -> list[tuple[str, str, str]]:
        start_at = START + hour * HOUR
        figures = source.observe_devices(
            target, start_at=start_at, end_at=start_at + HOUR, as_of=start_at + 2 * HOUR
        )
        return [(one.uuid, one.node, one.metric) for one in figures.health.signals]

    assert signals_of(0) == [(FAILURE.gpu_uuid, "hopper-whole-2", ROW_REMAP_FAILURE)]
    assert signals_of(-1) == signals_of(30) == []


def test_a_preemptible_pod_without_a_price_runs_after_the_longest_month() -> None:
    def pods_until(days: int) -> list[tuple[str, str]]:
        hopper = demo_scenario(SEED, MONTH, MONTH + timedelta(days=days)).cluster("hopper")
        pods = [pod for pod in hopper.pods if pod.name == UNPRICED_NAME]
        return [(pod.priority_class, pod.true_price_group) for pod in pods]

    assert pods_until(32) == []
    assert pods_until(34) == [("gpu-ledger-burst", "H100/whole/burst")]
