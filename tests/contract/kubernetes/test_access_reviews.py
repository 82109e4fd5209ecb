"""What an account may do is what a SelfSubjectAccessReview says, and the doctor reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.cluster_inspection import ClusterInspection, ClusterRight
from quotas.protocols import EnforcementEndpoint
from simulator.kubernetes_api.access import write_kubeconfig
from tests.contract.kubernetes.conftest import Client, wait_for
from tests.contract.kubernetes.test_roles import RBAC, Account, deploy
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

pytestmark = pytest.mark.needs("rbac.authorization.k8s.io/v1")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def watcher(wire: Wire, namespace: str) -> Iterator[Account]:
    made = deploy(wire, namespace, "watcher-rbac.yaml")
    wait_for(lambda: made.wire.get("/api/v1/pods", limit=1).code == 200)
    yield made
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        wire.delete(f"{path}/{made.name}")


def is_allowed(account: Account, **asked: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = account.wire.post(REVIEWS, review)
    assert answer.code == 201
    allowed: bool = answer.body["status"]["allowed"]
    return allowed


def test_a_review_allows_what_the_role_allows_and_nothing_else(watcher: Account) -> None:
    pods = {"verb": "watch", "resource": "pods"}

    assert is_allowed(watcher, **pods)
    assert is_allowed(watcher, **pods, namespace=watcher.namespace)
    assert is_allowed(watcher, verb="get", group="batch", resource="jobs")
    assert not is_allowed(watcher, verb="delete", resource="pods")
    assert not is_allowed(watcher, verb="get", resource="secrets")
    assert not is_allowed(watcher, verb="get", group="apps", resource="jobs")
    assert not is_allowed(watcher, verb="create", resource="pods", subresource="eviction")


def test_a_review_of_a_named_object_answers_for_its_name(watcher: Account) -> None:
    token = {
        "verb": "create",
        "resource": "serviceaccounts",
        "subresource": "token",
        "namespace": watcher.namespace,
    }

    assert is_allowed(watcher, **token, name=watcher.name)
    assert not is_allowed(watcher, **token, name="another")


def test_who_shows_no_token_learns_nothing(watcher: Account) -> None:
    unknown = watcher.wire.as_token("not-a-token").post(REVIEWS, {"spec": {}})

    assert unknown.code == 401


def test_the_doctor_finds_the_rights_that_an_account_lacks(
    watcher: Account, wire: Wire, api_client: Client, tmp_path: Path
) -> None:
    pem = Path(api_client.configuration.ssl_ca_cert).read_text("utf-8")
    path = write_kubeconfig(
        tmp_path / "kubeconfig", url=wire.url, authority_pem=pem, token=watcher.token
    )
    endpoint = EnforcementEndpoint("contract", "", reference_to(path))
    inspection = ClusterInspection(ClusterCalls(), endpoint)
    asked = [
        ClusterRight("list", "pods"),
        ClusterRight("create", "pods/eviction"),
        ClusterRight("patch", "resourcequotas", namespace=watcher.namespace),
        ClusterRight("get", "jobs", "batch"),
    ]

    denied = inspection.denied(asked)

    assert denied == [asked[1], asked[2]]
    assert inspection.version().startswith("v1.")
