"""Controllers and kinds without a server: budgets, Jobs, priorities, and what is not valid."""

from datetime import UTC, datetime
from typing import Any

import pytest

from simulator.kubernetes_api.budgets import (
    BudgetController,
    budgeted_pods,
)
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.incoming import (
    Writing,
    posted_object,
)
from simulator.kubernetes_api.jobs import JobController
from simulator.kubernetes_api.kinds import (
    new_causes,
)
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.resources import (
    BUDGETS,
    JOBS,
    NAMESPACES,
    PODS,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.writing import Writer

AT = datetime(2026, 10, 1, 12, tzinfo=UTC)
JSON = dict[str, Any]
HOW = Writing(manager="kubectl")


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
    told = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0}
    store.put(BUDGETS, ("ns", "b"), {"metadata": metadata, "spec": told, "status": status})


def status_of(store: ObjectStore) -> JSON:
    BudgetController(store).reconcile()
    found: JSON = (store.get(BUDGETS, ("ns", "b")) or {})["status"]
    return found


def test_a_budget_counts_pods_that_are_ready_and_stay() -> None:
    store = ObjectStore()
    put_pod(store, "a")
    put_pod(store, "b", is_ready=False)
    put_pod(store, "c", deletionTimestamp="2026-10-01T12:00:00Z")
    put_budget(store, minAvailable=0)

    assert status_of(store) == {
        "expectedPods": 3,
        "currentHealthy": 1,
        "desiredHealthy": 0,
        "disruptionsAllowed": 1,
        "observedGeneration": 2,
    }


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


def test_a_budget_without_a_selector_is_about_nobody() -> None:
    store = ObjectStore()
    put_pod(store, "a")
    put_budget(store, minAvailable=1, selector=None)

    assert budgeted_pods(store, "ns", store.get(BUDGETS, ("ns", "b")) or {}) == []


@pytest.fixture
def jobs() -> tuple[ObjectStore, Writer, JobController]:
    store = ObjectStore()
    writer = Writer(store, clock=lambda: AT)
    remover = Remover(store, clock=lambda: AT)
    writer.create(NAMESPACES, "", {"metadata": {"name": "ns"}}, HOW)
    return store, writer, JobController(store, writer, remover, clock=lambda: AT)


def job_body(**spec: object) -> JSON:
    container = {"name": "main", "image": "i"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"metadata": {"name": "train"}, "spec": {"template": template, **spec}}


def end_pods(store: ObjectStore, phase: str) -> None:
    for key, pod in store.items(PODS):
        if pod["status"]["phase"] == "Pending":
            store.put(PODS, key, {**pod, "status": {**pod["status"], "phase": phase}})


def job_status(store: ObjectStore) -> JSON:
    found: JSON = (store.get(JOBS, ("ns", "train")) or {})["status"]
    return found


def test_a_job_makes_no_more_pods_than_are_left_to_complete(
    jobs: tuple[ObjectStore, Writer, JobController],
) -> None:
    store, writer, controller = jobs
    writer.create(JOBS, "ns", job_body(parallelism=2, completions=3), HOW)

    controller.reconcile()
    at_first = job_status(store)
    end_pods(store, "Succeeded")
    controller.reconcile()

    assert at_first == {"active": 2, "startTime": "2026-10-01T12:00:00Z"}
    assert job_status(store)["active"] == 1
    assert job_status(store)["succeeded"] == 2


def test_a_job_without_completions_makes_as_many_as_run_side_by_side(
    jobs: tuple[ObjectStore, Writer, JobController],
) -> None:
    store, writer, controller = jobs
    writer.create(JOBS, "ns", job_body(parallelism=2), HOW)

    controller.reconcile()

    assert job_status(store)["active"] == 2


def test_a_job_that_is_being_deleted_is_left_alone(
    jobs: tuple[ObjectStore, Writer, JobController],
) -> None:
    store, writer, controller = jobs
    made = writer.create(JOBS, "ns", job_body(), HOW)
    for name in ("kind", "apiVersion"):
        made.pop(name)
    gone = {**made["metadata"], "deletionTimestamp": "2026-10-01T12:00:00Z"}
    store.put(JOBS, ("ns", "train"), {**made, "metadata": gone})

    controller.reconcile()

    assert store.items(PODS) == []


@pytest.mark.parametrize(
    ("plural", "obj", "field"),
    [
        ("jobs", {"spec": {"template": {}}}, "spec.template.spec.containers"),
        ("mutatingwebhookconfigurations", {"webhooks": [{"name": "a.b"}]}, "webhooks[0].name"),
    ],
)
def test_what_cannot_be_meant_is_told_by_its_field(plural: str, obj: JSON, field: str) -> None:
    assert field in {cause[2] for cause in new_causes(plural, obj)}


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"metadata": []},
        {"kind": "Binding", "apiVersion": "policy/v1"},
        {"kind": "Eviction", "apiVersion": "v1"},
        {"metadata": {"name": "other"}},
    ],
)
def test_what_is_posted_is_what_belongs_there(body: Any) -> None:  # noqa: ANN401 - JSON.
    with pytest.raises(StatusError) as caught:
        posted_object(body, "a", "Eviction")

    assert caught.value.code == 400
