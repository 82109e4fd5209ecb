"""The standard scenario, made once: a fortnight, so that the outage lies inside."""

from datetime import UTC, datetime, timedelta

import pytest

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.scenario import Scenario, SimulatedCluster

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
UNTIL = MONTH + timedelta(days=14)
SEED = 11


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    return demo_scenario(SEED, MONTH, UNTIL)


@pytest.fixture(scope="session")
def hopper(scenario: Scenario) -> SimulatedCluster:
    return scenario.cluster("hopper")


@pytest.fixture(scope="session")
def ampere(scenario: Scenario) -> SimulatedCluster:
    return scenario.cluster("ampere")
