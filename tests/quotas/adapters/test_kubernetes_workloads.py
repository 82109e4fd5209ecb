"""The Kubernetes evictor against a simulated API that answers badly."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from quotas.adapters import kubernetes_workloads, workload_evictor
from quotas.adapters.kubernetes_workloads import (
    PATCH_TRIES,
    KubernetesWorkloadEvictor,
    answer_of,
    eviction_of,
)
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import EvictionAnswer, EvictionOutcome, WorkloadReference
from simulator.adapters.workload_evictor import SimulatedWorkloadEvictor
from simulator.kubernetes_api import KubernetesAPI
from tenants.domain.errors import SourceUnavailableError
from tests.support.references import reference_to

POD = WorkloadReference("Pod", "llm", "a", "uid-a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAPI]:
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesAPI(folder, tokens={"sesame": "gpu-ledger"}) as api:
        yield api


@pytest.fixture(scope="module")
def kubeconfig(server: KubernetesAPI, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(server.kubeconfig(tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"))


@pytest.fixture(scope="module")
def job(kubeconfig: str) -> WorkloadReference:
    made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(made)
    batch: Any = client.BatchV1Api(made)
    core.create_namespace({"metadata": {"name": "llm"}})
    container = {"name": "main", "image": "example.com/none:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    body = {"metadata": {"name": "train"}, "spec": {"parallelism": 0, "template": template}}
    uid = batch.create_namespaced_job("llm", body).metadata.uid
    return WorkloadReference("Job", "llm", "train", uid)


@pytest.fixture
def endpoint(kubeconfig: str) -> EnforcementEndpoint:
    return EnforcementEndpoint("hopper", "", reference_to(kubeconfig))


@pytest.fixture
def evictor(server: KubernetesAPI) -> Iterator[KubernetesWorkloadEvictor]:
    yield KubernetesWorkloadEvictor()
    server.reset_faults()


def evict(
    evictor: KubernetesWorkloadEvictor, endpoint: EnforcementEndpoint, pod: WorkloadReference = POD
) -> EvictionAnswer:
    return evictor.evict_pod(endpoint, pod, grace_seconds=None, is_dry_run=False)


@pytest.mark.parametrize(("reported", "waits"), [(7, 7), (999_999, 3_600), (None, None)])
def test_a_server_that_asks_to_wait_is_obeyed(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    server: KubernetesAPI,
    reported: int | None,
    waits: int | None,
) -> None:
    server.fail_next(429, verb="create", resource="pods/eviction", retry_after_seconds=reported)

    answer = evict(evictor, endpoint)

    assert answer.outcome is EvictionOutcome.BLOCKED
    assert answer.retry_after == (None if waits is None else timedelta(seconds=waits))


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "forbidden"), (500, "server_error"), (400, "refused")]
)
def test_what_is_no_answer_about_the_pod_is_raised(code: int, reason: str) -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        answer_of(ApiException(status=code, reason="No"), POD)

    assert refusal.value.reason == reason
    assert str(refusal.value) == f"Pod llm/a was answered with {code}: No"


def test_rotated_credentials_are_read_again(
    evictor: KubernetesWorkloadEvictor, kubeconfig: str, job: WorkloadReference, tmp_path: Path
) -> None:
    text = Path(kubeconfig).read_text()
    rotating = tmp_path / "kubeconfig"
    rotating.write_text(text.replace("sesame", "outdated"))
    endpoint = EnforcementEndpoint("hopper", "", reference_to(rotating))

    with pytest.raises(SourceUnavailableError) as refusal:
        evictor.find_job(endpoint, namespace="llm", name="train")
    rotating.write_text(text)
    found = evictor.find_job(endpoint, namespace="llm", name="train")

    assert refusal.value.reason == "unauthorized"
    assert found is not None
    assert found.reference == job


def test_another_conflict_than_the_uid_is_asked_again(
    evictor: KubernetesWorkloadEvictor, endpoint: EnforcementEndpoint, server: KubernetesAPI
) -> None:
    server.fail_next(409, verb="create", resource="pods/eviction")

    assert evict(evictor, endpoint).outcome is EvictionOutcome.BLOCKED


def test_a_cluster_that_cannot_be_reached_is_reported_so(
    evictor: KubernetesWorkloadEvictor, tmp_path: Path
) -> None:
    with KubernetesAPI(tmp_path, tokens={"sesame": "gpu-ledger"}) as gone:
        reference = reference_to(gone.kubeconfig(tmp_path / "kubeconfig"))

    with pytest.raises(SourceUnavailableError) as refusal:
        evict(evictor, EnforcementEndpoint("gone", "", reference))

    assert refusal.value.reason == "unreachable"


def test_a_list_of_resources_that_is_refused_is_no_answer(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    monkeypatch: Any,  # noqa: ANN401
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ApiException(status=403, reason="Forbidden")

    monkeypatch.setattr(client.CoreV1Api, "get_api_resources", refused)
    with pytest.raises(SourceUnavailableError, match="The list of resources"):
        evict(evictor, endpoint)


def test_a_server_without_evictions_is_reported_so(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    monkeypatch: Any,  # noqa: ANN401
) -> None:
    empty = client.V1APIResourceList(group_version="v1", resources=[])
    monkeypatch.setattr(client.CoreV1Api, "get_api_resources", lambda *_, **__: empty)

    with pytest.raises(SourceUnavailableError) as refusal:
        evict(evictor, endpoint)

    assert refusal.value.reason == "no_eviction"


def test_a_job_that_others_keep_changing_is_given_up_for_now(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    server: KubernetesAPI,
    job: WorkloadReference,
) -> None:
    server.fail_next(409, verb="patch", resource="jobs", times=PATCH_TRIES)

    with pytest.raises(SourceUnavailableError) as refusal:
        evictor.suspend_job(endpoint, job, is_dry_run=False)

    found = evictor.find_job(endpoint, namespace="llm", name="train")
    assert refusal.value.reason == "busy"
    assert found is not None
    assert not found.is_suspended


def test_a_job_that_was_changed_once_is_switched_at_the_second_try(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    server: KubernetesAPI,
    job: WorkloadReference,
) -> None:
    server.fail_next(409, verb="patch", resource="jobs", times=1)

    answer = evictor.suspend_job(endpoint, job, is_dry_run=True)

    assert answer.outcome is EvictionOutcome.WOULD_START


@pytest.mark.parametrize("verb", ["get", "patch"])
def test_a_job_nobody_answers_about_is_reported_so(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    server: KubernetesAPI,
    job: WorkloadReference,
    verb: str,
) -> None:
    server.fail_next(503, verb=verb, resource="jobs")

    with pytest.raises(SourceUnavailableError, match="Job llm/train"):
        evictor.suspend_job(endpoint, job, is_dry_run=False)


def test_the_body_names_the_version_the_uid_and_the_grace() -> None:
    body = eviction_of(POD, version="policy/v1beta1", grace_seconds=120, is_dry_run=True)

    assert body == {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": "llm"},
        "deleteOptions": {
            "preconditions": {"uid": "uid-a"},
            "gracePeriodSeconds": 120,
            "dryRun": ["All"],
        },
    }


@pytest.mark.parametrize("body", ["<html>", "[]", None])
def test_a_refusal_of_a_proxy_is_reported_by_its_reason(body: str | None) -> None:
    error = ApiException(status=404, reason="Not Found")
    error.body = body

    assert answer_of(error, POD) == EvictionAnswer(EvictionOutcome.GONE, message="Not Found")


@pytest.mark.parametrize("text", ["soon", "-5", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_time_to_wait_that_is_no_number_of_seconds_is_not_guessed(text: str) -> None:
    error = ApiException(status=429, reason="Too Many Requests")
    error.headers = {"Retry-After": text}

    assert answer_of(error, POD).retry_after is None


def test_a_simulated_cluster_that_is_away_answers_nothing() -> None:
    away = EnforcementEndpoint("away", "", "")
    SimulatedWorkloadEvictor.cluster("away").failure = "timeout"

    with pytest.raises(SourceUnavailableError) as refusal:
        SimulatedWorkloadEvictor().find_job(away, namespace="llm", name="train")

    SimulatedWorkloadEvictor.purge()
    assert refusal.value.reason == "timeout"


def test_a_setting_names_one_evictor_per_process() -> None:
    setting = {"BACKEND": "simulator.adapters.workload_evictor.SimulatedWorkloadEvictor"}

    assert workload_evictor(setting) is workload_evictor({**setting, "OPTIONS": {}})
    assert isinstance(workload_evictor(setting), SimulatedWorkloadEvictor)


@pytest.fixture
def wide(kubeconfig: str, server: KubernetesAPI, job: WorkloadReference) -> Iterator[str]:
    """Return the name of a Job of three pods."""
    made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    batch: Any = client.BatchV1Api(made)
    container = {"name": "main", "image": "example.com/none:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    body = {"metadata": {"name": "wide"}, "spec": {"parallelism": 3, "template": template}}
    batch.create_namespaced_job(job.namespace, body)
    server.settle()
    yield "wide"
    batch.delete_namespaced_job("wide", job.namespace, propagation_policy="Background")


def test_the_pods_of_a_job_are_read_page_by_page(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    wide: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_workloads, "PODS_PER_PAGE", 2)

    found = evictor.find_job(endpoint, namespace="llm", name=wide)

    assert found is not None
    assert len(found.pod_uids) == 3


def test_a_job_of_more_pods_than_are_read_is_no_answer(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    wide: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes_workloads, "PODS_PER_PAGE", 1)
    monkeypatch.setattr(kubernetes_workloads, "PAGES_MAX", 2)

    with pytest.raises(SourceUnavailableError, match="has too many pods"):
        evictor.find_job(endpoint, namespace="llm", name=wide)


def test_a_list_of_pods_that_is_refused_is_no_answer(
    evictor: KubernetesWorkloadEvictor,
    endpoint: EnforcementEndpoint,
    server: KubernetesAPI,
    wide: str,
) -> None:
    server.fail_next(503, verb="list", resource="pods")

    with pytest.raises(SourceUnavailableError) as refusal:
        evictor.find_job(endpoint, namespace="llm", name=wide)

    assert refusal.value.reason == "server_error"


# NOIMPORT
