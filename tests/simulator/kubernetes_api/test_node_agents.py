"""Pods that run by themselves: bound where there is room, running, done, and gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulator.kubernetes_api.pods import RUNS_FOR, run_pods
from simulator.kubernetes_api.resources import NODES, PODS
from simulator.kubernetes_api.store import ObjectStore

AT = datetime(2026, 10, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
JSON = dict[str, Any]


class Trial:
    """A store with nodes of GPUs, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.store = ObjectStore(clock=lambda: self.at)
        self.at = AT

    def node(self, name: str, gpus: int, **labels: str) -> None:
        status = {"allocatable": {GPU: str(gpus)}}
        self.store.put(
            NODES, ("", name), {"metadata": {"name": name, "labels": labels}, "status": status}
        )

    def pod(self, name: str, gpus: int, *, spec: JSON | None = None, **metadata: object) -> None:
        container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
        self.store.put(
            PODS,
            ("ns", name),
            {
                "metadata": {
                    "name": name,
                    "namespace": "ns",
                    "creationTimestamp": "2026-10-01T12:00:00Z",
                    **metadata,
                },
                "spec": {"containers": [container], **(spec or {})},
                "status": {"phase": "Pending"},
            },
        )

    def step(self, times: int = 1, *, seconds: int = 0) -> None:
        self.at += timedelta(seconds=seconds)
        for _ in range(times):
            run_pods(self.store)

    def found(self, name: str) -> JSON | None:
        return self.store.get(PODS, ("ns", name))

    def node_of(self, name: str) -> str:
        found = self.found(name)
        assert found is not None
        return str(found["spec"].get("nodeName", ""))

    def phase_of(self, name: str) -> str:
        found = self.found(name)
        assert found is not None
        return str(found["status"]["phase"])


@pytest.fixture
def trial() -> Trial:
    made = Trial()
    made.node("a", 4)
    return made


def test_a_pod_is_bound_and_then_runs(trial: Trial) -> None:
    trial.pod("x", 2)
    trial.step()
    assert (trial.node_of("x"), trial.phase_of("x")) == ("a", "Pending")

    trial.step(seconds=3)

    found = trial.found("x")
    assert found is not None
    assert found["status"] == {
        "phase": "Running",
        "startTime": "2026-10-01T12:00:03Z",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2026-10-01T12:00:00Z",
            },
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-10-01T12:00:03Z"},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-10-01T12:00:03Z"}},
            }
        ],
    }


def test_no_node_is_given_more_than_it_has_and_the_oldest_pod_comes_first(trial: Trial) -> None:
    trial.pod("late", 3, creationTimestamp="2026-10-01T12:00:02Z")
    trial.pod("early", 3)
    trial.pod("small", 1, creationTimestamp="2026-10-01T12:00:03Z")

    trial.step(3)

    assert trial.node_of("early") == "a"
    assert trial.node_of("late") == ""
    assert trial.node_of("small") == "a"


def test_a_pod_that_waits_is_bound_when_another_is_done(trial: Trial) -> None:
    trial.pod("first", 4, annotations={RUNS_FOR: "60"})
    trial.pod("second", 4, creationTimestamp="2026-10-01T12:00:01Z")
    trial.step(2)
    assert trial.node_of("second") == ""

    trial.step(2, seconds=60)

    found = trial.found("first")
    assert found is not None
    assert found["status"]["phase"] == "Succeeded"
    assert found["status"]["containerStatuses"][0]["state"] == {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": "2026-10-01T12:00:00Z",
            "finishedAt": "2026-10-01T12:01:00Z",
        }
    }
    assert trial.node_of("second") == "a"


def test_a_node_selector_is_kept_to(trial: Trial) -> None:
    trial.node("b", 4, zone="blue")
    trial.pod("x", 1, spec={"nodeSelector": {"zone": "blue"}})
    trial.pod("y", 1, spec={"nodeSelector": {"zone": "red"}})

    trial.step()

    assert (trial.node_of("x"), trial.node_of("y")) == ("b", "")


def test_a_pod_without_gpus_runs_too(trial: Trial) -> None:
    trial.pod("x", 0)

    trial.step(2)

    assert trial.phase_of("x") == "Running"


def test_a_deleted_pod_ends_with_its_time_and_is_gone(trial: Trial) -> None:
    trial.pod("x", 4)
    trial.step(2)
    found = trial.found("x")
    assert found is not None
    ending = {"deletionTimestamp": "2026-10-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
    trial.store.put(PODS, ("ns", "x"), {**found, "metadata": {**found["metadata"], **ending}})

    trial.step()
    assert trial.phase_of("x") == "Running"
    trial.step(seconds=1)
    ended = trial.found("x")
    assert ended is not None
    terminated = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["finishedAt"]) == (143, "2026-10-01T12:00:01Z")
    trial.step()

    assert trial.found("x") is None


def test_a_deleted_pod_that_never_ran_is_gone_at_once_unless_a_finalizer_holds_it(
    trial: Trial,
) -> None:
    trial.pod("x", 9, deletionTimestamp="2026-10-01T12:00:00Z")
    trial.pod("y", 9, deletionTimestamp="2026-10-01T12:00:00Z", finalizers=["example.com/keep"])

    trial.step()

    assert trial.found("x") is None
    assert trial.found("y") is not None


def test_what_is_as_it_should_be_is_not_written_again(trial: Trial) -> None:
    trial.pod("x", 2)
    trial.pod("waiting", 9)
    trial.step(2)
    version = trial.store.version

    trial.step(3, seconds=5)

    assert trial.store.version == version
