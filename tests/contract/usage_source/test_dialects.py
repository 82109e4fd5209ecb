"""A bill does not depend on whose API answers: VictoriaMetrics is read as Prometheus is."""

from dataclasses import replace

import pytest

from metering.protocols import DeviceFigures, Observation
from tests.contract.usage_source.conftest import HOURS, Seen


def without_evidence(observation: Observation) -> Observation:
    """Leave out digests of bodies, which each server spells in its own way."""
    return replace(observation, evidence=())


def without_digests(figures: DeviceFigures) -> DeviceFigures:
    """Leave them out of what devices did too."""
    return replace(figures, evidence=(), health=replace(figures.health, sha256=""))


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
@pytest.mark.parametrize("hour", range(HOURS - 1))
def test_victoria_metrics_and_prometheus_give_the_same_observation(
    prometheus: Seen, victoria_metrics: Seen, cluster: str, hour: int
) -> None:
    one, other = prometheus.observe(cluster, hour), victoria_metrics.observe(cluster, hour)

    assert other.pods
    assert without_evidence(other) == without_evidence(one)
    assert [asked.query for asked in other.evidence] == [asked.query for asked in one.evidence]
    assert [asked.samples for asked in other.evidence] == [asked.samples for asked in one.evidence]


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
def test_victoria_metrics_and_prometheus_give_the_same_devices(
    prometheus: Seen, victoria_metrics: Seen, cluster: str
) -> None:
    one, other = (
        prometheus.observe_devices(cluster, 1),
        victoria_metrics.observe_devices(cluster, 1),
    )

    assert other.devices
    assert without_digests(other) == without_digests(one)
    assert [asked.query for asked in other.evidence] == [asked.query for asked in one.evidence]
