"""Controllers and kinds without a server: budgets, Jobs, priorities, and what is not valid."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulator.kubernetes_api.budgets import (
    BudgetController,
    budgeted_pods,
    charged_budget,
)
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.incoming import (
    Writing,
    posted_object,
)
from simulator.kubernetes_api.jobs import JobController
from simulator.kubernetes_api.kinds import (
    claim_status_causes,
    new_causes,
)
from simulator.kubernetes_api.priorities import resolve_priority
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.resources import (
    BUDGETS,
    JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
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


def status_of(store: ObjectStore, at: datetime = AT) -> JSON:
    BudgetController(store, clock=lambda: at).reconcile()
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


def test_a_pod_that_was_evicted_and_stays_counts_again_after_two_minutes() -> None:
    store = ObjectStore()
    for name in ("a", "b"):
        put_pod(store, name)
    put_budget(store, minAvailable=1)
    status_of(store)
    charged = charged_budget(store.get(BUDGETS, ("ns", "b")) or {}, "a", AT)
    store.put(BUDGETS, ("ns", "b"), charged)

    soon = status_of(store, AT + timedelta(seconds=119))
    later = status_of(store, AT + timedelta(seconds=120))

    assert (soon["currentHealthy"], soon["disruptionsAllowed"]) == (1, 0)
    assert soon["disruptedPods"] == {"a": "2026-10-01T12:00:00Z"}
    assert (later["currentHealthy"], later["disruptionsAllowed"]) == (2, 1)
    assert "disruptedPods" not in later


def test_a_budget_that_was_not_looked_at_yet_asks_for_ten_seconds() -> None:
    store = ObjectStore()
    put_budget(store, minAvailable=1)

    with pytest.raises(StatusError) as caught:
        charged_budget(store.get(BUDGETS, ("ns", "b")) or {}, "a", AT)

    assert (caught.value.code, caught.value.retry_after_seconds) == (429, 10)
    (cause,) = caught.value.body["details"]["causes"]
    assert cause["message"] == "The disruption budget b is still being processed by the server."


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


def test_a_job_fails_after_too_many_failures_and_ends_the_rest(
    jobs: tuple[ObjectStore, Writer, JobController],
) -> None:
    store, writer, controller = jobs
    writer.create(JOBS, "ns", job_body(parallelism=2, completions=2, backoffLimit=1), HOW)
    controller.reconcile()
    end_pods(store, "Failed")
    controller.reconcile()
    controller.reconcile()

    (condition,) = job_status(store)["conditions"]
    assert (condition["type"], condition["status"]) == ("Failed", "True")
    assert job_status(store)["failed"] == 2
    assert "active" not in job_status(store)


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


def test_a_job_with_a_selector_of_its_own_keeps_it(
    jobs: tuple[ObjectStore, Writer, JobController],
) -> None:
    _, writer, _ = jobs
    selector = {"matchLabels": {"mine": "yes"}}

    made = writer.create(JOBS, "ns", job_body(manualSelector=True, selector=selector), HOW)

    assert made["spec"]["selector"] == selector


def test_the_class_of_everybody_is_the_lowest_that_is_marked() -> None:
    store = ObjectStore()
    for name, value in (("high", 9), ("low", 3)):
        one = {"metadata": {"name": name}, "value": value, "globalDefault": True}
        store.put(PRIORITY_CLASSES, ("", name), {**one, "preemptionPolicy": "Never"})
    pod: JSON = {"metadata": {"name": "a"}, "spec": {}}

    resolve_priority(store, pod)

    assert pod["spec"] == {
        "priority": 3,
        "preemptionPolicy": "Never",
        "priorityClassName": "low",
    }


def test_the_servers_own_classes_are_known() -> None:
    pod: JSON = {"metadata": {"name": "a"}, "spec": {"priorityClassName": "system-node-critical"}}

    resolve_priority(ObjectStore(), pod)

    assert pod["spec"]["priority"] == 2_000_001_000


def test_a_priority_of_ones_own_is_refused() -> None:
    pod: JSON = {"metadata": {"generateName": "a-"}, "spec": {"priority": 7}}

    with pytest.raises(StatusError) as caught:
        resolve_priority(ObjectStore(), pod)

    assert caught.value.code == 403
    assert "computed 0 from the given PriorityClass name" in caught.value.body["message"]


@pytest.mark.parametrize(
    ("plural", "obj", "field"),
    [
        ("jobs", job_body(parallelism=-1), "spec.parallelism"),
        ("jobs", {"spec": {"template": {}}}, "spec.template.spec.containers"),
        ("priorityclasses", {"value": 2_000_000_000}, "value"),
        ("priorityclasses", {"value": "high"}, "value"),
        ("resourceslices", {"spec": {"driver": "d"}}, "spec.pool.name"),
        ("mutatingwebhookconfigurations", {"webhooks": [{"name": "a.b"}]}, "webhooks[0].name"),
    ],
)
def test_what_cannot_be_meant_is_told_by_its_field(plural: str, obj: JSON, field: str) -> None:
    assert field in {cause[2] for cause in new_causes(plural, obj)}


def test_a_claim_has_so_many_consumers_and_each_has_a_uid() -> None:
    consumers = [{"uid": str(number)} for number in range(257)]
    status = {"allocation": {"devices": {}}, "reservedFor": [*consumers, {"name": "nobody"}]}

    causes = list(claim_status_causes({"status": status}))

    assert [(cause[0], cause[2]) for cause in causes] == [
        ("FieldValueTooMany", "status.reservedFor"),
        ("FieldValueRequired", "status.reservedFor[257].uid"),
    ]


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
