"""The server itself: who may ask, what it serves, and what it says to nonsense."""

import pytest
import urllib3
from kubernetes import client

from tests.contract.kubernetes.conftest import Client


def ask(api_client: Client, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
    """Ask without the client's own token."""
    settings = api_client.configuration
    pool = urllib3.PoolManager(ca_certs=settings.ssl_ca_cert)
    return pool.request("GET", settings.host + path, headers=headers, timeout=5)


def test_the_version_is_told(api_client: Client) -> None:
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


def test_groups_are_listed(api_client: Client) -> None:
    assert client.ApisApi(api_client).get_api_versions().kind == "APIGroupList"


def test_an_unknown_token_is_unauthorized(api_client: Client) -> None:
    answer = ask(api_client, "/api/v1/namespaces", Authorization="Bearer wrong")

    assert answer.status == 401
    assert answer.json()["reason"] == "Unauthorized"


def test_nobody_may_list_without_a_token(api_client: Client) -> None:
    answer = ask(api_client, "/api/v1/namespaces")

    assert answer.status in {401, 403}
    assert answer.json()["kind"] == "Status"


def test_an_unknown_path_is_not_found(api_client: Client) -> None:
    token = next(iter(api_client.configuration.api_key.values()))

    answer = ask(api_client, "/api/v1/gadgets", Authorization=token)

    assert answer.status == 404
    assert answer.json()["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_it_says_that_it_lives(api_client: Client, path: str) -> None:
    token = next(iter(api_client.configuration.api_key.values()))

    answer = ask(api_client, path, Authorization=token)

    assert (answer.status, answer.data) == (200, b"ok")


def test_a_client_that_trusts_others_is_not_served(api_client: Client) -> None:
    pool = urllib3.PoolManager(retries=False)

    with pytest.raises(urllib3.exceptions.SSLError):
        pool.request("GET", f"{api_client.configuration.host}/version", timeout=5)
