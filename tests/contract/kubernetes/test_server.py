"""The server itself: who may ask, what it serves, and what it says to nonsense."""

import pytest
import urllib3
from kubernetes import client

from tests.contract.kubernetes.conftest import Client
from tests.support.kubernetes.wire import Wire


def ask(api_client: Client, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
    """Ask without the client's own token."""
    settings = api_client.configuration
    pool = urllib3.PoolManager(ca_certs=settings.ssl_ca_cert)
    return pool.request("GET", settings.host + path, headers=headers, timeout=5)


def test_the_version_is_reported(api_client: Client) -> None:
    version = client.VersionApi(api_client).get_code()

    assert version.major == "1"
    assert version.git_version.startswith("v1.")


def test_the_core_group_and_its_resources_are_discovered(api_client: Client) -> None:
    versions = client.CoreApi(api_client).get_api_versions()
    resources = client.CoreV1Api(api_client).get_api_resources()

    served = {one.name: one for one in resources.resources}
    assert "v1" in versions.versions
    assert served["pods"].namespaced
    assert served["resourcequotas"].kind == "ResourceQuota"
    assert not served["nodes"].namespaced
    assert {"pods/status", "pods/binding", "resourcequotas/status"} <= served.keys()


def test_groups_are_listed_with_the_version_they_prefer(wire: Wire) -> None:
    found = wire.get("/apis").body

    preferred = {one["name"]: one["preferredVersion"]["version"] for one in found["groups"]}
    assert found["kind"] == "APIGroupList"
    for name in ("batch", "scheduling.k8s.io", "rbac.authorization.k8s.io"):
        assert preferred[name] == "v1"
    assert preferred["admissionregistration.k8s.io"] == "v1"


@pytest.mark.parametrize(
    ("group_version", "plural", "kind", "is_namespaced"),
    [
        ("batch/v1", "jobs", "Job", True),
        ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False),
        ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True),
        (
            "admissionregistration.k8s.io/v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            False,
        ),
    ],
)
def test_the_resources_of_a_group_are_discovered(
    wire: Wire,
    group_version: str,
    plural: str,
    kind: str,
    is_namespaced: bool,  # noqa: FBT001 - A table.
) -> None:
    found = wire.get(f"/apis/{group_version}").body

    (entry,) = [one for one in found["resources"] if one["name"] == plural]
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", group_version)
    assert (entry["kind"], entry["namespaced"]) == (kind, is_namespaced)
    assert {"create", "delete", "get", "list", "patch", "watch"} <= set(entry["verbs"])


@pytest.mark.needs("resource.k8s.io/v1")
def test_claims_and_slices_are_discovered(wire: Wire) -> None:
    found = wire.get("/apis/resource.k8s.io/v1").body["resources"]

    names = {one["name"] for one in found}
    assert {
        "deviceclasses",
        "resourceclaims",
        "resourceclaims/status",
        "resourceclaimtemplates",
        "resourceslices",
    } <= names


@pytest.mark.needs("policy/v1")
def test_an_eviction_is_discovered_with_its_group(wire: Wire) -> None:
    found = wire.get("/api/v1").body["resources"]

    (entry,) = [one for one in found if one["name"] == "pods/eviction"]
    assert (entry["group"], entry["version"], entry["kind"]) == ("policy", "v1", "Eviction")


def test_a_group_of_nobody_is_not_found(wire: Wire) -> None:
    assert wire.get("/apis/nobody.example.com/v1/things").code == 404
    assert wire.get("/apis/batch/v99/jobs").code == 404


def test_an_unknown_token_is_unauthorized(api_client: Client) -> None:
    answer = ask(api_client, "/api/v1/namespaces", Authorization="Bearer wrong")

    assert answer.status == 401
    assert answer.json()["reason"] == "Unauthorized"


def test_nobody_may_list_without_a_token(api_client: Client) -> None:
    answer = ask(api_client, "/api/v1/namespaces")

    assert answer.status in {401, 403}
    assert answer.json()["kind"] == "Status"


def test_an_unknown_path_is_not_found(wire: Wire) -> None:
    answer = wire.get("/api/v1/gadgets")

    assert answer.code == 404
    assert answer.message == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_it_says_that_it_lives(wire: Wire, path: str) -> None:
    answer = wire.get(path)

    assert (answer.code, answer.body) == (200, {"text": "ok"})


def test_a_client_that_trusts_others_is_not_served(api_client: Client) -> None:
    pool = urllib3.PoolManager(retries=False)

    with pytest.raises(urllib3.exceptions.SSLError):
        pool.request("GET", f"{api_client.configuration.host}/version", timeout=5)
