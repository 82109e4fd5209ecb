"""The real Prometheus and the simulation see the same, hour by hour."""

import msgspec
import pytest

from metering.protocols import DeviceObservation, Figure
from tests.contract.usage_source.conftest import HOURS, SCRAPE_SECONDS, Seen

MILLIWATTS_MAX = 700_000
"""What an H100 takes at most: the bound of a step that is cut at another moment."""


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
@pytest.mark.parametrize("hour", range(HOURS - 1))
def test_both_sources_see_the_same_pods_nodes_and_scrapes(
    prometheus: Seen, simulated: Seen, cluster: str, hour: int
) -> None:
    real, twin = prometheus.observe(cluster, hour), simulated.observe(cluster, hour)

    assert real.pods == twin.pods
    assert real.nodes == twin.nodes
    assert real.ticks == twin.ticks
    assert real.targets == twin.targets
    assert real.device_models == twin.device_models != {}
    assert (real.as_of, real.expected_ticks) == (twin.as_of, twin.expected_ticks)


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
@pytest.mark.parametrize("hour", range(HOURS - 1))
def test_both_sources_see_the_same_devices(
    prometheus: Seen, simulated: Seen, cluster: str, hour: int
) -> None:
    real, twin = prometheus.observe_devices(cluster, hour), simulated.observe_devices(cluster, hour)

    assert [without_energy(one) for one in real.devices] == [
        without_energy(one) for one in twin.devices
    ]
    for ours, theirs in zip(real.devices, twin.devices, strict=True):
        assert (ours.energy_millijoules is None) == (theirs.energy_millijoules is None)
        difference = (ours.energy_millijoules or 0) - (theirs.energy_millijoules or 0)
        assert abs(difference) <= 2 * SCRAPE_SECONDS * MILLIWATTS_MAX


def without_energy(device: DeviceObservation) -> DeviceObservation:
    return msgspec.structs.replace(device, energy_millijoules=None)


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
def test_both_sources_mark_the_same_energies_and_miss_the_same_figures(
    prometheus: Seen, simulated: Seen, cluster: str
) -> None:
    real, twin = prometheus.observe_devices(cluster, 0), simulated.observe_devices(cluster, 0)

    assert real.missing_figures == twin.missing_figures == tuple(sorted(set(Figure) - {"energy"}))
    assert [(one.uuid, one.node, one.marks) for one in real.energies] == [
        (one.uuid, one.node, one.marks) for one in twin.energies
    ]
    assert real.energies
    for ours, theirs in zip(real.energies, twin.energies, strict=True):
        difference = ours.taken_millijoules[-1] - theirs.taken_millijoules[-1]
        assert abs(difference) <= 2 * SCRAPE_SECONDS * MILLIWATTS_MAX
