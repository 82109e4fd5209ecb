"""What answers of an API server prove about pods, and what they do not."""

from collections.abc import Mapping
from typing import Any

import pytest

from quotas.adapters.cluster_calls import ClusterCalls, ClusterRefusalError
from quotas.adapters.pod_proofs import PodProofs
from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError

HOPPER = EnforcementEndpoint("hopper", "", "")
ABSENT = {"kind": "Status", "reason": "NotFound", "details": {"name": "x"}}
SETS = "/apis/apps/v1/namespaces/llm/replicasets/web"
PODS = "/api/v1/namespaces/llm/pods?limit=500&labelSelector=app%3Dweb"
POD = "/api/v1/namespaces/llm/pods/web-1"
Answers = Mapping[str, list[object]]


class RecordedCalls(ClusterCalls):
    """Answers each path from a list, the last one again and again."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers

    def get(
        self, endpoint: EnforcementEndpoint, path: str, *, has_only_metadata: bool = False
    ) -> dict[str, Any]:
        if has_only_metadata:
            path = f"metadata of {path}"
        known = self.answers[path]
        answer = known.pop(0) if len(known) > 1 else known[0]
        if isinstance(answer, Exception):
            raise answer
        assert endpoint == HOPPER
        assert isinstance(answer, dict)
        return answer


def proofs(answers: Answers) -> PodProofs:
    return PodProofs(RecordedCalls(answers))


def replica_set(replicas: int | None, uid: str = "set-1") -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    selector = {"matchLabels": {"app": "web"}}
    return {"kind": "ReplicaSet", "metadata": {"uid": uid}, "spec": {**spec, "selector": selector}}


def pod(uid: str, *, owner: str = "set-1", phase: str = "Running", **more: str) -> dict[str, Any]:
    owners = [{"uid": owner, "controller": True}]
    metadata = {"uid": uid, "ownerReferences": owners, **more}
    return {"metadata": metadata, "status": {"phase": phase}}


def pod_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "PodList", "items": items}


def test_a_controller_lacks_what_its_active_pods_leave() -> None:
    listed = [
        pod("running"),
        pod("ended", phase="Failed"),
        pod("ending", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("strange", owner="set-0"),
    ]
    read = proofs({SETS: [replica_set(3)], PODS: [pod_list(listed)]})

    found = read.find_lacking(HOPPER, "llm", "ReplicaSet/web")

    assert found is not None
    assert (found.lacking, found.present) == (2, frozenset({"running", "ended", "ending"}))


@pytest.mark.parametrize(
    ("before", "after", "lacking"), [(1, 3, 3), (3, 1, 3), (None, None, 1), (0, 0, 0)]
)
def test_the_greater_of_two_numbers_holds(
    before: int | None, after: int | None, lacking: int
) -> None:
    read = proofs({SETS: [replica_set(before), replica_set(after)], PODS: [pod_list([])]})

    found = read.find_lacking(HOPPER, "llm", "ReplicaSet/web")

    assert found is not None
    assert found.lacking == lacking


@pytest.mark.parametrize(
    "sets",
    [
        [ClusterRefusalError(404, ABSENT)],
        [replica_set(1), ClusterRefusalError(404, ABSENT)],
        [replica_set(1), replica_set(1, uid="set-2")],
    ],
)
def test_a_controller_that_is_gone_or_made_anew_proves_nothing(sets: list[object]) -> None:
    read = proofs({SETS: sets, PODS: [pod_list([])]})

    assert read.find_lacking(HOPPER, "llm", "ReplicaSet/web") is None
    assert read.find_lacking(HOPPER, "llm", "RayCluster/web") is None


def test_pods_on_further_pages_count_and_too_many_prove_nothing() -> None:
    first = {**pod_list([pod("a")]), "metadata": {"continue": "next"}}
    more = f"{PODS}&continue=next"
    short = proofs({SETS: [replica_set(2)], PODS: [first], more: [pod_list([pod("b")])]})
    long = proofs({SETS: [replica_set(2)], PODS: [first], more: [first]})

    found = short.find_lacking(HOPPER, "llm", "ReplicaSet/web")

    assert found is not None
    assert (found.lacking, found.present) == (0, frozenset({"a", "b"}))
    assert long.find_lacking(HOPPER, "llm", "ReplicaSet/web") is None


def test_pods_of_a_namespace_are_read_as_metadata_of_one_time() -> None:
    path = "metadata of /api/v1/namespaces/llm/pods?limit=500&labelSelector="
    more = f"{path}&continue=next"
    listed = {**pod_list([pod("a", name="web-1")]), "metadata": {"continue": "next"}}
    second = pod_list([pod("b", name="web-2")])

    assert proofs({path: [listed], more: [second]}).find_pod_uids(HOPPER, "llm") == {
        "web-1": "a",
        "web-2": "b",
    }
    assert proofs({path: [listed], more: [listed]}).find_pod_uids(HOPPER, "llm") is None
    others: list[object] = [{"items": []}]
    others += [ClusterRefusalError(404, ABSENT), ClusterRefusalError(410, {})]
    for answer in others:
        with pytest.raises(SourceUnavailableError):
            proofs({path: [answer]}).find_pod_uids(HOPPER, "llm")


def test_only_the_api_server_says_that_a_pod_is_absent() -> None:
    assert proofs({POD: [pod("uid-1")]}).find_pod_uid(HOPPER, "llm", "web-1") == "uid-1"
    gone = proofs({POD: [ClusterRefusalError(404, ABSENT)]})
    assert gone.find_pod_uid(HOPPER, "llm", "web-1") == ""

    for answer in (ClusterRefusalError(404, {}), ClusterRefusalError(403, {})):
        with pytest.raises(SourceUnavailableError):
            proofs({POD: [answer]}).find_pod_uid(HOPPER, "llm", "web-1")


def test_the_longest_timeout_of_all_webhooks_is_read() -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?limit=500"
    several = [{"webhooks": [{"timeoutSeconds": 3}, {}]}, {"webhooks": [{"timeoutSeconds": 25}]}]

    assert proofs({path: [{"items": several}]}).read_webhook_seconds(HOPPER) == 25
    assert proofs({path: [{"items": several[:1]}]}).read_webhook_seconds(HOPPER) == 10
    assert proofs({path: [{"items": []}]}).read_webhook_seconds(HOPPER) == 0
