"""What every workload evictor does, whatever it speaks with."""

import pytest

from quotas.protocols.workloads import EvictionAnswer, EvictionOutcome, WorkloadReference
from tests.contract.workload_evictor.benches import Bench, wait_until_left

OTHER = "00000000-0000-4000-8000-000000000000"


def evict(
    bench: Bench, namespace: str, name: str, uid: str, *, is_dry_run: bool = False
) -> EvictionAnswer:
    pod = WorkloadReference("Pod", namespace, name, uid)
    return bench.evictor.evict_pod(bench.endpoint, pod, grace_seconds=None, is_dry_run=is_dry_run)


def job_of(namespace: str, uid: str) -> WorkloadReference:
    return WorkloadReference("Job", namespace, "train", uid)


def test_the_pod_that_is_meant_begins_to_end(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")
    bench.run_pod(namespace, "b")

    answer = evict(bench, namespace, "a", uid)

    assert answer == EvictionAnswer(EvictionOutcome.STARTED)
    assert bench.pods_left(namespace) == ["b"]


def test_evicting_twice_is_evicting_once(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")

    answers = [evict(bench, namespace, "a", uid).outcome for _ in range(2)]

    assert answers[0] is EvictionOutcome.STARTED
    assert answers[1] in {EvictionOutcome.STARTED, EvictionOutcome.GONE}
    assert bench.pods_left(namespace) == []


def test_another_pod_of_the_same_name_is_left_alone(bench: Bench) -> None:
    namespace = bench.make_namespace()
    bench.run_pod(namespace, "a")

    answer = evict(bench, namespace, "a", OTHER)

    assert answer.outcome is EvictionOutcome.CHANGED
    assert answer.message
    assert bench.pods_left(namespace) == ["a"]


def test_a_pod_that_is_not_there_is_gone(bench: Bench) -> None:
    namespace = bench.make_namespace()

    assert evict(bench, namespace, "nobody", OTHER).outcome is EvictionOutcome.GONE


def test_a_dry_run_ends_nothing(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")

    answer = evict(bench, namespace, "a", uid, is_dry_run=True)

    assert answer == EvictionAnswer(EvictionOutcome.WOULD_START)
    assert bench.pods_left(namespace) == ["a"]


def test_a_budget_keeps_the_last_pod(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")
    bench.make_budget(namespace, 1)

    answer = evict(bench, namespace, "a", uid)

    assert answer.outcome is EvictionOutcome.BLOCKED
    assert "disruption budget" in answer.message
    assert bench.pods_left(namespace) == ["a"]


def test_a_budget_that_can_spare_one_lets_one_go(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")
    bench.run_pod(namespace, "b")
    bench.make_budget(namespace, 1)

    assert evict(bench, namespace, "a", uid).outcome is EvictionOutcome.STARTED
    assert bench.pods_left(namespace) == ["b"]


def test_several_budgets_about_one_pod_take_a_person(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_pod(namespace, "a")
    bench.make_budget(namespace, 0)
    bench.make_budget(namespace, 0, name="another")

    answer = evict(bench, namespace, "a", uid)

    assert answer.outcome is EvictionOutcome.MISCONFIGURED
    assert "more than one PodDisruptionBudget" in answer.message
    assert bench.pods_left(namespace) == ["a"]


def test_a_job_is_found_by_its_name(bench: Bench) -> None:
    namespace = bench.make_namespace()
    uid = bench.run_job(namespace, "train")

    found = bench.evictor.find_job(bench.endpoint, namespace=namespace, name="train")

    assert found is not None
    assert (found.reference, found.is_suspended) == (job_of(namespace, uid), False)
    assert found.can_be_suspended is bench.suspends_jobs


def test_a_job_knows_its_own_pods_and_no_others(bench: Bench) -> None:
    namespace = bench.make_namespace()
    stranger = bench.run_pod(namespace, "stranger")
    bench.run_job(namespace, "other")
    before = set(bench.uids(namespace).values())
    bench.run_job(namespace, "train")

    found = bench.evictor.find_job(bench.endpoint, namespace=namespace, name="train")

    assert found is not None
    assert found.pod_uids == set(bench.uids(namespace).values()) - before
    assert len(found.pod_uids) == 1
    assert stranger not in found.pod_uids


def test_a_job_that_is_not_there_is_none(bench: Bench) -> None:
    namespace = bench.make_namespace()

    assert bench.evictor.find_job(bench.endpoint, namespace=namespace, name="nobody") is None


@pytest.mark.suspends
def test_a_suspended_job_lets_its_pods_go(bench: Bench) -> None:
    namespace = bench.make_namespace()
    job = job_of(namespace, bench.run_job(namespace, "train"))

    answers = [bench.evictor.suspend_job(bench.endpoint, job, is_dry_run=False) for _ in range(2)]

    assert answers == [EvictionAnswer(EvictionOutcome.STARTED)] * 2
    assert wait_until_left(bench, namespace, 0) == []
    found = bench.evictor.find_job(bench.endpoint, namespace=namespace, name="train")
    assert found is not None
    assert found.is_suspended


@pytest.mark.suspends
def test_a_dry_run_suspends_nothing(bench: Bench) -> None:
    namespace = bench.make_namespace()
    job = job_of(namespace, bench.run_job(namespace, "train"))

    answer = bench.evictor.suspend_job(bench.endpoint, job, is_dry_run=True)

    found = bench.evictor.find_job(bench.endpoint, namespace=namespace, name="train")
    assert answer == EvictionAnswer(EvictionOutcome.WOULD_START)
    assert found is not None
    assert not found.is_suspended
    assert len(bench.pods_left(namespace)) == 1


@pytest.mark.suspends
def test_a_resumed_job_runs_on(bench: Bench) -> None:
    namespace = bench.make_namespace()
    job = job_of(namespace, bench.run_job(namespace, "train"))
    bench.evictor.suspend_job(bench.endpoint, job, is_dry_run=False)

    answers = [bench.evictor.resume_job(bench.endpoint, job) for _ in range(2)]

    found = bench.evictor.find_job(bench.endpoint, namespace=namespace, name="train")
    assert answers == [EvictionAnswer(EvictionOutcome.STARTED)] * 2
    assert found is not None
    assert not found.is_suspended


@pytest.mark.suspends
def test_another_job_of_the_same_name_is_left_alone(bench: Bench) -> None:
    namespace = bench.make_namespace()
    bench.run_job(namespace, "train")
    other = job_of(namespace, OTHER)

    answers = [
        bench.evictor.suspend_job(bench.endpoint, other, is_dry_run=False),
        bench.evictor.resume_job(bench.endpoint, other),
    ]

    assert [answer.outcome for answer in answers] == [EvictionOutcome.CHANGED] * 2
    assert len(bench.pods_left(namespace)) == 1


@pytest.mark.suspends
def test_a_deleted_job_is_gone(bench: Bench) -> None:
    namespace = bench.make_namespace()
    job = job_of(namespace, bench.run_job(namespace, "train"))
    bench.delete_job(namespace, "train")

    answers = [
        bench.evictor.suspend_job(bench.endpoint, job, is_dry_run=False),
        bench.evictor.resume_job(bench.endpoint, job),
    ]

    assert [answer.outcome for answer in answers] == [EvictionOutcome.GONE] * 2
