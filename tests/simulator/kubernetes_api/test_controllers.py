"""Controllers and kinds without a server: budgets, Jobs, priorities, and what is not valid."""

from datetime import UTC, datetime
from typing import Any

import pytest

from simulator.kubernetes_api.access import Write
from simulator.kubernetes_api.controllers import reconcile_jobs
from simulator.kubernetes_api.removal import reconcile_budgets
from simulator.kubernetes_api.resources import (
    BUDGETS,
    JOBS,
    NAMESPACES,
    PODS,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.writing import create_object

AT = datetime(2026, 10, 1, 12, tzinfo=UTC)
JSON = dict[str, Any]


def put_pod(store: ObjectStore, name: str, *, is_ready: bool = True, **metadata: object) -> None:
    conditions = [{"type": "Ready", "status": str(is_ready)}]
    pod = {
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "x"}, **metadata},
        "spec": {},
        "status": {"phase": "Running", "conditions": conditions},
    }
    store.put(PODS, ("ns", name), pod)


def put_budget(store: ObjectStore, **spec: object) -> None:
    metadata = {"name": "b", "namespace": "ns", "generation": 2}
    reported = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0}
    store.put(BUDGETS, ("ns", "b"), {"metadata": metadata, "spec": reported, "status": status})


def status_of(store: ObjectStore) -> JSON:
    reconcile_budgets(store)
    found: JSON = (store.get(BUDGETS, ("ns", "b")) or {})["status"]
    return found


def test_a_budget_that_is_true_is_not_written_again() -> None:
    store = ObjectStore()
    put_budget(store, minAvailable=1)
    status_of(store)
    version = store.version

    status_of(store)

    assert store.version == version


def test_a_budget_of_nobody_allows_nothing() -> None:
    store = ObjectStore()
    put_budget(store, minAvailable=0)

    assert status_of(store)["disruptionsAllowed"] == 0


@pytest.mark.parametrize("spec", [{"maxUnavailable": 1}, {"minAvailable": "50%"}])
def test_a_budget_that_needs_a_scale_allows_nothing(spec: JSON) -> None:
    store = ObjectStore()
    put_pod(store, "a")
    put_budget(store, **spec)

    status = status_of(store)

    assert status["disruptionsAllowed"] == 0
    assert "observedGeneration" not in status


def test_a_budget_without_a_selector_is_about_no_pod() -> None:
    store = ObjectStore()
    put_pod(store, "a")
    put_budget(store, minAvailable=1, selector=None)

    assert status_of(store)["expectedPods"] == 0


@pytest.fixture
def jobs() -> ObjectStore:
    store = ObjectStore(clock=lambda: AT)
    create_object(Write(store, NAMESPACES, ("", ""), "kubectl"), {"metadata": {"name": "ns"}})
    return store


def job_body(**spec: object) -> JSON:
    container = {"name": "main", "image": "i"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"metadata": {"name": "train"}, "spec": {"template": template, **spec}}


def make_job(store: ObjectStore, body: JSON) -> JSON:
    return create_object(Write(store, JOBS, ("ns", ""), "kubectl"), body)


def end_pods(store: ObjectStore, phase: str) -> None:
    for key, pod in store.items(PODS):
        if pod["status"]["phase"] == "Pending":
            store.put(PODS, key, {**pod, "status": {**pod["status"], "phase": phase}})


def job_status(store: ObjectStore) -> JSON:
    found: JSON = (store.get(JOBS, ("ns", "train")) or {})["status"]
    return found


def test_a_job_makes_no_more_pods_than_are_left_to_complete(jobs: ObjectStore) -> None:
    make_job(jobs, job_body(parallelism=2, completions=3))

    reconcile_jobs(jobs)
    at_first = job_status(jobs)
    end_pods(jobs, "Succeeded")
    reconcile_jobs(jobs)

    assert at_first == {"active": 2, "startTime": "2026-10-01T12:00:00Z"}
    assert job_status(jobs)["active"] == 1
    assert job_status(jobs)["succeeded"] == 2


def test_a_job_without_completions_makes_as_many_as_run_side_by_side(jobs: ObjectStore) -> None:
    make_job(jobs, job_body(parallelism=2))

    reconcile_jobs(jobs)

    assert job_status(jobs)["active"] == 2


def test_a_job_that_is_being_deleted_is_left_alone(jobs: ObjectStore) -> None:
    made = make_job(jobs, job_body())
    for name in ("kind", "apiVersion"):
        made.pop(name)
    gone = {**made["metadata"], "deletionTimestamp": "2026-10-01T12:00:00Z"}
    jobs.put(JOBS, ("ns", "train"), {**made, "metadata": gone})

    reconcile_jobs(jobs)

    assert jobs.items(PODS) == []
