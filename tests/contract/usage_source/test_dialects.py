"""A bill does not depend on whose API answers: others are read as Prometheus 2 is."""

from dataclasses import replace

import pytest

from metering.protocols import DeviceFigures, Observation
from tests.contract.usage_source.conftest import HOURS, Seen
from tests.support.usage_source.holding import HAS_PROMETHEUS_3

OTHERS = ["victoria_metrics", *(["prometheus_3"] if HAS_PROMETHEUS_3 else [])]


@pytest.fixture(params=OTHERS)
def other_seen(request: pytest.FixtureRequest) -> Seen:
    """Return each other server in turn."""
    found: Seen = request.getfixturevalue(request.param)
    return found


def without_evidence(observation: Observation) -> Observation:
    """Leave out digests of bodies, which each server spells in its own way."""
    return replace(observation, evidence=())


def without_digests(figures: DeviceFigures) -> DeviceFigures:
    """Leave them out of what devices did too."""
    return replace(figures, evidence=(), health=replace(figures.health, sha256=""))


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
@pytest.mark.parametrize("hour", range(HOURS - 1))
def test_another_server_and_prometheus_give_the_same_observation(
    prometheus: Seen, other_seen: Seen, cluster: str, hour: int
) -> None:
    one, other = prometheus.observe(cluster, hour), other_seen.observe(cluster, hour)

    assert other.pods
    assert without_evidence(other) == without_evidence(one)
    assert [asked.query for asked in other.evidence] == [asked.query for asked in one.evidence]
    assert [asked.samples for asked in other.evidence] == [asked.samples for asked in one.evidence]


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
def test_another_server_and_prometheus_give_the_same_devices(
    prometheus: Seen, other_seen: Seen, cluster: str
) -> None:
    one, other = (
        prometheus.observe_devices(cluster, 1),
        other_seen.observe_devices(cluster, 1),
    )

    assert other.devices
    assert without_digests(other) == without_digests(one)
    assert [asked.query for asked in other.evidence] == [asked.query for asked in one.evidence]
