"""Roles: what the accounts of deploy/kubernetes may do, and that they may do nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.kubernetes.conftest import LABELS, new_name, pod_body, wait_for
from tests.deploy.files import documents_of
from tests.support.kubernetes.server import Server
from tests.support.kubernetes.wire import Body, Wire

pytestmark = pytest.mark.needs("rbac.authorization.k8s.io/v1")
MANIFESTS = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}
DYNAMIC = "/apis/resource.k8s.io/v1"


@dataclass(frozen=True)
class Account:
    """A ServiceAccount with what a manifest gives it.

    Attributes:
        wire: Requests with its token.
        documents: The manifest, under names of this run.
        token: The account's.
    """

    name: str
    namespace: str
    wire: Wire
    documents: list[Body]
    token: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def deploy(wire: Wire, namespace: str, manifest: str) -> Account:
    """Apply a manifest under names of this run, and return its account with a token."""
    name = new_name()
    documents = list(documents_of((MANIFESTS / manifest).read_text(encoding="utf-8")))
    for document in documents:
        document["metadata"].update({"name": name, "labels": LABELS})
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = namespace
        for rule in document.get("rules", []):
            if "resourceNames" in rule:
                rule["resourceNames"] = [name]
        if document["kind"].endswith("Binding"):
            document["roleRef"]["name"] = name
            document["subjects"][0].update({"name": name, "namespace": namespace})
        path = PATHS[document["kind"]].format(namespace=namespace)
        assert wire.post(path, document).code == 201
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token = wire.post(account, body).body["status"]["token"]
    return Account(name, namespace, wire.as_token(token), documents, token)


@pytest.fixture
def watcher(wire: Wire, namespace: str) -> Iterator[Account]:
    made = deploy(wire, namespace, "watcher-rbac.yaml")
    wait_for(lambda: made.wire.get("/api/v1/pods", limit=1).code == 200)
    yield made
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        wire.delete(f"{path}/{made.name}")


def test_the_watcher_reads_pods_and_nodes(watcher: Account, node: str) -> None:
    pods = watcher.wire.get("/api/v1/pods")
    nodes = watcher.wire.get("/api/v1/nodes")

    assert (pods.code, pods.body["kind"]) == (200, "PodList")
    assert node in {one["metadata"]["name"] for one in nodes.body["items"]}
    assert watcher.wire.get(f"/api/v1/nodes/{node}").code == 200


@pytest.mark.parametrize("plural", ["pods", "nodes"])
def test_the_watcher_watches_pods_and_nodes(watcher: Account, plural: str) -> None:
    version = watcher.wire.get(f"/api/v1/{plural}").body["metadata"]["resourceVersion"]

    events = watcher.wire.watch(f"/api/v1/{plural}", resourceVersion=version)

    assert all(event["type"] != "ERROR" for event in events)


@pytest.mark.parametrize("plural", ["resourceclaims", "resourceslices", "deviceclasses"])
def test_the_watcher_reads_claims_and_slices_where_there_are_any(
    watcher: Account, server: Server, plural: str
) -> None:
    listed = watcher.wire.get(f"{DYNAMIC}/{plural}")

    assert listed.code == (200 if server.has("resource.k8s.io/v1") else 404)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/configmaps",
        "/api/v1/resourcequotas",
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
        f"{RBAC}/clusterroles",
        f"{DYNAMIC}/resourceclaimtemplates",
    ],
)
def test_the_watcher_reads_nothing_else(watcher: Account, path: str) -> None:
    refused = watcher.wire.get(path)

    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert f'User "{watcher.user}" cannot list resource' in refused.message
    assert refused.message.endswith("at the cluster scope")


def test_the_watcher_may_not_read_one_secret_either(watcher: Account) -> None:
    refused = watcher.wire.get(f"/api/v1/namespaces/{watcher.namespace}/secrets/any")

    assert refused.code == 403
    assert refused.message.startswith('secrets "any" is forbidden')


def test_the_watcher_writes_nothing(watcher: Account, wire: Wire, node: str) -> None:
    pods = f"/api/v1/namespaces/{watcher.namespace}/pods"
    assert wire.post(pods, pod_body("a")).code == 201
    target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": "a"}}
    label = {"metadata": {"labels": {"a": "b"}}}

    codes = {
        "create": watcher.wire.post(pods, pod_body("b")).code,
        "patch": watcher.wire.patch(f"{pods}/a", label).code,
        "status": watcher.wire.patch(f"{pods}/a/status", {"status": {}}).code,
        "bind": watcher.wire.post(f"{pods}/a/binding", target).code,
        "evict": watcher.wire.post(f"{pods}/a/eviction", {"metadata": {"name": "a"}}).code,
        "delete": watcher.wire.delete(f"{pods}/a").code,
        "delete all": watcher.wire.delete(pods).code,
        "node": watcher.wire.patch(f"/api/v1/nodes/{node}", label).code,
        "role": watcher.wire.patch(f"{RBAC}/clusterroles/{watcher.name}", label).code,
        "token": watcher.wire.post(
            f"/api/v1/namespaces/{watcher.namespace}/serviceaccounts/default/token", {}
        ).code,
    }

    assert set(codes.values()) == {403}
    left = wire.get(pods).body["items"]
    assert [one["metadata"]["name"] for one in left] == ["a"]
    assert "nodeName" not in left[0]["spec"]
    assert "labels" not in left[0]["metadata"]


def test_the_watcher_asks_for_no_more_than_it_reads(watcher: Account) -> None:
    (role,) = [one for one in watcher.documents if one["kind"] == "ClusterRole"]

    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert verbs == {"get", "list", "watch"}
    assert resources == {
        *("pods", "nodes", "resourceclaims", "resourceslices", "deviceclasses"),
        *("replicationcontrollers", "replicasets", "jobs", "validatingwebhookconfigurations"),
    }


@pytest.fixture
def admission(wire: Wire, namespace: str) -> Iterator[Account]:
    made = deploy(wire, namespace, "admission-rbac.yaml")
    wait_for(lambda: made.wire.get("/api/v1/pods", limit=1).code == 200)
    yield made
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        wire.delete(f"{path}/{made.name}")


def test_admission_reads_what_proves_that_a_pod_was_not_created(
    admission: Account, server: Server
) -> None:
    home = f"/api/v1/namespaces/{admission.namespace}"
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    found = {path: admission.wire.get(path).code for path in (f"{home}/pods", hooks)}
    jobs = f"/apis/batch/v1/namespaces/{admission.namespace}/jobs/none"
    controllers = [jobs, f"{home}/replicationcontrollers/none"]
    if server.has("apps/v1"):
        controllers.append(f"/apis/apps/v1/namespaces/{admission.namespace}/replicasets/none")

    assert found == {f"{home}/pods": 200, hooks: 200}
    assert {admission.wire.get(path).code for path in controllers} == {404}


def test_admission_reads_and_writes_nothing_else(admission: Account, wire: Wire) -> None:
    home = f"/api/v1/namespaces/{admission.namespace}"
    assert wire.post(f"{home}/pods", pod_body("a")).code == 201
    label = {"metadata": {"labels": {"a": "b"}}}

    codes = {
        "secrets": admission.wire.get(f"{home}/secrets").code,
        "nodes": admission.wire.get("/api/v1/nodes").code,
        "jobs": admission.wire.get("/apis/batch/v1/jobs").code,
        "watch": admission.wire.get(f"{home}/pods", watch="true", timeoutSeconds="1").code,
        "create": admission.wire.post(f"{home}/pods", pod_body("b")).code,
        "patch": admission.wire.patch(f"{home}/pods/a", label).code,
        "delete": admission.wire.delete(f"{home}/pods/a").code,
    }

    assert set(codes.values()) == {403}


def test_a_role_that_is_taken_away_allows_nothing_more(watcher: Account, wire: Wire) -> None:
    wire.delete(f"{RBAC}/clusterrolebindings/{watcher.name}")

    wait_for(lambda: watcher.wire.get("/api/v1/pods", limit=1).code == 403)


def test_a_role_in_one_namespace_is_for_that_one(wire: Wire, namespace: str) -> None:
    name = new_name()
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    api = "rbac.authorization.k8s.io"
    body = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    reference = {"apiGroup": api, "kind": "Role", "name": name}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": [account],
    }
    home = f"{RBAC}/namespaces/{namespace}"
    assert wire.post(f"{home}/roles", body).code == 201
    assert wire.post(f"{home}/rolebindings", binding).code == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    tenant = wire.as_token(wire.post(path, request).body["status"]["token"])

    wait_for(lambda: tenant.get(f"/api/v1/namespaces/{namespace}/pods").code == 200)

    elsewhere = tenant.get("/api/v1/namespaces/default/pods")
    assert elsewhere.code == 403
    assert elsewhere.message.endswith('in the namespace "default"')
    assert tenant.get(f"/api/v1/namespaces/{namespace}/pods/any").code == 403
