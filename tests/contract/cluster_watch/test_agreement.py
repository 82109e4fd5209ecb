"""Both implementations tell one scenario alike, object by object."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from metering.protocols.watch import PodState, WatchedKind
from simulator.cluster.scenario import Scenario
from tests.contract.cluster_watch.benches import (
    START,
    SimulatedBench,
    kubernetes_bench,
    listed,
)


@pytest.mark.parametrize("kind", [WatchedKind.PODS, WatchedKind.NODES])
def test_every_object_is_read_alike(
    tmp_path: Path, watched_scenario: Scenario, kind: WatchedKind
) -> None:
    simulated = SimulatedBench(watched_scenario)
    phases = set()
    with kubernetes_bench(tmp_path, watched_scenario) as kubernetes:
        for hours in (0, 1, 7, 20):
            at = START + timedelta(hours=hours)
            simulated.move(at)
            kubernetes.move(at)
            ours, theirs = listed(simulated, kind), listed(kubernetes, kind)
            assert set(ours) == set(theirs)
            for uid, state in ours.items():
                other = theirs[uid]
                assert replace(other, resource_version="") == replace(state, resource_version="")
                phases.add(state.phase if isinstance(state, PodState) else "")

    wanted = {"Running", "Succeeded", "Pending"} if kind is WatchedKind.PODS else {""}
    assert phases >= wanted
