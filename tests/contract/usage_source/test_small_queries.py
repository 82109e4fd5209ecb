"""A Prometheus that loads few samples at once is asked in parts, and answers the same."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from config.embedded.programs import end_stale
from config.embedded.prometheus import EmbeddedPrometheus
from config.embedded.prometheus_history import import_history
from config.embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource, device_reading
from metering.adapters.simulated_cluster.scenario import Scenario
from tests.contract.usage_source.conftest import HOURS, MONTH, ROOT, Seen

SAMPLES_MAX = 1_500
"""Less than one query about devices loads here, and more than each sixteenth of its time does."""


@pytest.fixture(scope="module")
def small(scenario: Scenario) -> Iterator[Seen]:
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
        yield Seen(PrometheusUsageSource(), scenario, server.url())
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


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
    monkeypatch.setattr(device_reading, "DEVICE_SAMPLES_MAX", samples_max)

    parts = prometheus.observe_devices("hopper", 1)

    assert len(parts.evidence) >= 4 + 2 * 16
    assert (parts.devices, parts.energies) == (whole.devices, whole.energies)
    assert parts.missing_figures == whole.missing_figures
