"""Figures by Prometheus' own aggregates are those by raw samples, whatever is wrong with a GPU."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus.devices import reading
from metering.adapters.prometheus.samples import to_time
from metering.protocols import ClusterTarget, DeviceFigures
from tests.support.sampling import sampled
from tests.support.usage_source.device_cases import (
    END,
    SCRAPE,
    START,
    Case,
    Twist,
    cases,
    openmetrics,
)
from tests.support.usage_source.holding import VERSIONS, holding

CASES = 80
IMPORTS = 4
"""Each import is a Prometheus of its own; its GPUs are the examples."""


def figures(url: str) -> DeviceFigures:
    target = ClusterTarget(slug="hopper", prometheus_url=url, scrape_interval_seconds=SCRAPE)
    start_at, end_at = to_time(START), to_time(END)
    return PrometheusUsageSource().observe_devices(
        target, start_at=start_at, end_at=end_at, as_of=end_at + timedelta(minutes=20)
    )


def raw_figures(url: str) -> DeviceFigures:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(reading, "read_steady", lambda *_: None)
        return figures(url)


def raw_samples(found: DeviceFigures) -> int:
    return sum(one.samples for one in found.evidence if "CLOCK" in one.query)


@pytest.mark.parametrize("version", sampled(VERSIONS, every=2))
@settings(max_examples=IMPORTS, phases=(Phase.generate,))
@given(found=st.lists(cases(), min_size=CASES, max_size=CASES))
def test_aggregates_and_raw_samples_give_the_same_figures(version: int, found: list[Case]) -> None:
    steady = [Case(seed) for seed in range(CASES)]

    with holding(openmetrics([*found, *steady]), version=version) as url:
        aggregated, raw = figures(url), raw_figures(url)

    assert raw_samples(aggregated) < raw_samples(raw)
    for ours, theirs in zip(aggregated.devices, raw.devices, strict=True):
        assert ours == theirs, [case for n, case in enumerate(found) if f"-{n:08d}-" in ours.uuid]
    assert aggregated.energies == raw.energies
    assert aggregated.missing_figures == raw.missing_figures


def test_raw_samples_of_steady_gpus_are_not_queried() -> None:
    steady = [
        Case(seed, step=step, phase=phase, instances=instances, owner=owner)
        for seed, (step, phase, instances, owner) in enumerate(
            product((15_000, 30_000, 60_000), (1, 7_347, 14_998), (0, 2), ("pod", "idle", "own"))
        )
    ]

    with holding(openmetrics(steady)) as url:
        aggregated, raw = figures(url), raw_figures(url)

    assert raw_samples(aggregated) == 0 < raw_samples(raw)
    assert (aggregated.devices, aggregated.energies) == (raw.devices, raw.energies)
    assert {one.samples for one in aggregated.devices} == {60, 120, 121}


def test_only_gpus_of_another_owner_or_with_a_reset_are_read_from_raw_samples() -> None:
    middle = START + 1_800_000
    found = [Case(seed) for seed in range(8)]
    found[2] = Case(2, twists=(Twist("moved", middle, END + 200_000),))
    found[5] = Case(5, twists=(Twist("reset", middle, END),))

    with holding(openmetrics(found)) as url:
        aggregated, raw = figures(url), raw_figures(url)

    assert (aggregated.devices, aggregated.energies) == (raw.devices, raw.energies)
    listed = {one.query for one in aggregated.evidence if "CLOCK" in one.query}
    assert [query.count("GPU-") for query in listed] == [2]
    assert all("GPU-00000002-" in query and "GPU-00000005-" in query for query in listed)
