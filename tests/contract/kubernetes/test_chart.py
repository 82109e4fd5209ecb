"""The chart on a real API server: it takes the objects, and accounts may do what they ask."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.config.test_docs_site import program
from tests.contract.kubernetes.conftest import APPLY, LABELS, new_name, wait_for
from tests.deploy.files import documents_of
from tests.deploy.test_chart import HOME
from tests.support.kubernetes.wire import Body, Wire

pytestmark = [pytest.mark.real, pytest.mark.needs("rbac.authorization.k8s.io/v1", "apps/v1")]
chart = program("chart")
QUOTAS = "resourcequotas"
WATCHED = ("pods", "nodes")
CONTROLLERS = (
    ("get", "", "replicationcontrollers"),
    ("get", "apps", "replicasets"),
    ("get", "batch", "jobs"),
)
HOOKS = "validatingwebhookconfigurations"
REGISTRATION = "admissionregistration.k8s.io"
ENFORCER = (
    *((verb, "", QUOTAS) for verb in ("get", "list", "watch", "create", "patch")),
    *((verb, "kueue.x-k8s.io", "clusterqueues") for verb in ("get", "create", "patch")),
    *((verb, "kueue.x-k8s.io", "localqueues") for verb in ("get", "create", "patch")),
    *CONTROLLERS,
    ("get", "apps", "statefulsets"),
    ("list", "", "events"),
    ("get", REGISTRATION, HOOKS),
)
PREEMPTION = (
    ("get", "batch", "jobs"),
    ("patch", "batch", "jobs"),
    ("list", "", "pods"),
    ("create", "", "pods/eviction"),
)
DYNAMIC = ("resourceclaims", "resourceslices", "deviceclasses")
WATCH = (
    *((verb, "", name) for verb in ("get", "list", "watch") for name in WATCHED),
    *((verb, "resource.k8s.io", name) for verb in ("list", "watch") for name in DYNAMIC),
)
ASKED = {
    "web": (*ENFORCER, *PREEMPTION),
    "worker": PREEMPTION,
    "short-worker": ENFORCER,
    "watcher": (*WATCH, *ENFORCER),
    "admission": (
        ("get", "", "pods"),
        ("list", "", "pods"),
        *CONTROLLERS,
        ("list", REGISTRATION, HOOKS),
    ),
}
"""What each component asks of the API, as verb, group and resource."""
NEVER = (
    *((verb, "", "secrets") for verb in ("get", "list", "create")),
    *((verb, "", "pods") for verb in ("create", "delete", "deletecollection", "patch", "update")),
    *((verb, "", QUOTAS) for verb in ("delete", "update")),
    ("create", "", "pods/exec"),
    ("create", "", "pods/binding"),
    ("get", "", "configmaps"),
    ("create", "", "serviceaccounts/token"),
    ("patch", "", "nodes"),
    ("delete", "batch", "jobs"),
    ("patch", "apps", "deployments"),
    ("delete", REGISTRATION, HOOKS),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
)
"""What none may."""
OTHERS = {
    "worker": ENFORCER[:5],
    "short-worker": (("create", "", "pods/eviction"), ("patch", "batch", "jobs")),
    "watcher": (("create", "", "pods/eviction"), ("patch", "batch", "jobs")),
    "admission": (*ENFORCER[:5], ("watch", "", "pods"), ("get", "", "nodes")),
}
"""What only other components may."""


@dataclass(frozen=True)
class Installed:
    """The chart's accounts in a namespace of this run."""

    release: str
    namespace: str
    wire: Wire
    objects: tuple[Body, ...]

    def may(self, component: str, request: tuple[str, str, str], **more: str) -> bool:
        """Whether the account of a component may do something, as the account itself is told."""
        verb, group, named = request
        resource, _, subresource = named.partition("/")
        attributes = {
            "namespace": self.namespace,
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            **more,
        }
        api = "authorization.k8s.io/v1"
        body = {"apiVersion": api, "kind": "SelfSubjectAccessReview"}
        answer = self.as_account(component).post(
            f"/apis/{api}/selfsubjectaccessreviews",
            {**body, "spec": {"resourceAttributes": attributes}},
        )
        return bool(answer.body["status"]["allowed"])

    def as_account(self, component: str) -> Wire:
        """Return requests with the token that Kubernetes would give the component's pods."""
        account = f"serviceaccounts/{self.release}-{component}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = self.wire.post(f"/api/v1/namespaces/{self.namespace}/{account}", body)
        return self.wire.as_token(made.body["status"]["token"])


def path_of(wire: Wire, body: Body) -> str:
    """Return where an object is, "" where the server has none of its kind."""
    version, kind = body["apiVersion"], body["kind"]
    api = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = wire.get(api).body.get("resources", [])
    found = [one for one in served if one["kind"] == kind and "/" not in one["name"]]
    if not found:
        return ""
    home = f"/namespaces/{body['metadata']['namespace']}" if found[0]["namespaced"] else ""
    return f"{api}{home}/{found[0]['name']}/{body['metadata']['name']}"


def apply(wire: Wire, path: str, body: Body, **query: str) -> tuple[int, str]:
    """Apply an object; return the status and the refusal."""
    reply = wire.patch(path, body, APPLY, fieldManager="helm", force="true", **query)
    return reply.code, reply.message


@pytest.fixture
def installed(wire: Wire, namespace: str) -> Iterator[Installed]:
    """Render the chart and make its accounts and roles."""
    release = new_name()
    rendered = chart.render(*HOME, release=release, namespace=namespace)
    objects = tuple(one for one in documents_of(rendered) if one)
    for one in objects:
        one["metadata"].setdefault("labels", {}).update(LABELS)
        if one["kind"] == "ServiceAccount" or one["apiVersion"].startswith("rbac."):
            code, message = apply(wire, path_of(wire, one), one)
            assert code == 201, message
    made = Installed(release, namespace, wire, objects)
    wait_for(lambda: made.may("web", ("get", "", QUOTAS)))
    yield made
    api = "/apis/rbac.authorization.k8s.io/v1"
    for one in objects:
        if one["kind"] in {"ClusterRole", "ClusterRoleBinding"}:
            wire.delete(f"{api}/{one['kind'].lower()}s/{one['metadata']['name']}")


def test_the_server_takes_every_object_that_it_serves(installed: Installed, wire: Wire) -> None:
    answers = {}
    for one in installed.objects:
        path = path_of(wire, one)
        if path:
            answers[path] = apply(wire, path, one, dryRun="All")

    assert {path: said for path, said in answers.items() if said[0] not in {200, 201}} == {}
    kinds = {one["kind"] for one in installed.objects if path_of(wire, one)}
    assert {"Deployment", "Job", "Service", "NetworkPolicy", "Ingress", "ConfigMap"} <= kinds


def test_a_field_that_the_server_does_not_know_is_refused(installed: Installed, wire: Wire) -> None:
    (web,) = [
        one
        for one in installed.objects
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", f"{installed.release}-web")
    ]
    wrong = {**web, "spec": {**web["spec"], "replica": 2}}

    code, message = apply(wire, path_of(wire, wrong), wrong, dryRun="All")

    assert code >= 400
    assert "replica" in message


@pytest.mark.parametrize("component", ASKED)
def test_an_account_may_do_what_its_component_asks(installed: Installed, component: str) -> None:
    refused = [one for one in ASKED[component] if not installed.may(component, one)]

    assert refused == []


@pytest.mark.parametrize("component", ASKED)
def test_an_account_may_do_nothing_else(installed: Installed, component: str) -> None:
    others = (*NEVER, *OTHERS.get(component, ()))

    assert [one for one in others if installed.may(component, one)] == []


def test_only_the_short_worker_changes_our_own_webhooks(installed: Installed) -> None:
    change, ours = ("patch", REGISTRATION, HOOKS), "gpu-ledger-home"

    allowed = {name for name in ASKED if installed.may(name, change, name=ours)}

    assert allowed == {"short-worker"}
    assert not installed.may("short-worker", change, name="another")


def test_the_watcher_lists_what_it_watches_with_its_own_token(installed: Installed) -> None:
    watcher = installed.as_account("watcher")

    codes = {path: watcher.get(path, limit=1).code for path in ("/api/v1/pods", "/api/v1/secrets")}

    assert codes == {"/api/v1/pods": 200, "/api/v1/secrets": 403}
