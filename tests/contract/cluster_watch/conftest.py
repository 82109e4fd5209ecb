from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.cluster.scenario import Scenario
from tests.contract.cluster_watch.benches import (
    Bench,
    SimulatedBench,
    kubernetes_bench,
    make_scenario,
)


@pytest.fixture(scope="session")
def watched_scenario() -> Scenario:
    """Make the scenario once."""
    return make_scenario()


@pytest.fixture(params=["kubernetes", "simulated"])
def bench(
    request: pytest.FixtureRequest, watched_scenario: Scenario, tmp_path: Path
) -> Iterator[Bench]:
    """Return each implementation in turn."""
    if request.param == "simulated":
        yield SimulatedBench(watched_scenario)
    else:
        with kubernetes_bench(tmp_path, watched_scenario) as made:
            yield made
