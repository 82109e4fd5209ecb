"""Where the credentials of a cluster come from."""

from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.config import incluster_config

from tenants.adapters import kubernetes_credentials as credentials
from tenants.domain.errors import SourceUnavailableError
from tests.quotas.builders import write_kubeconfig

URL = "https://kubernetes.example.test:6443/"


def configuration_of(url: str, reference: str) -> client.Configuration:
    return credentials.configuration_of(slug="hopper", url=url, reference=reference)


def test_a_kubeconfig_says_where_and_who(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://10.0.0.1:6443")

    found = configuration_of(URL, f"kubeconfig:{path}")

    assert found.host == "https://10.0.0.1:6443"
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.verify_ssl is True
    assert found.retries is False


def test_a_variable_holds_a_token_for_the_clusters_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPPER_TOKEN", " sesame\n")
    monkeypatch.setenv("HOPPER_TOKEN_CA_FILE", "/etc/hopper/ca.crt")

    found = configuration_of(URL, "env:HOPPER_TOKEN")

    assert found.host == URL.rstrip("/")
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.ssl_ca_cert == "/etc/hopper/ca.crt"


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        (URL, ""),
        (URL, "vault:hopper"),
        (URL, "env:NOT_SET_ANYWHERE"),
        ("", "env:HOPPER_TOKEN"),
        (URL, "file:/does/not/exist"),
        (URL, "kubeconfig:/does/not/exist"),
        (URL, "in-cluster"),
    ],
)
def test_credentials_that_are_not_there_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, reference: str
) -> None:
    monkeypatch.setenv("HOPPER_TOKEN", "sesame")

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(url, reference)

    assert refusal.value.reason == "credentials_missing"
    assert "hopper" in str(refusal.value)
    assert "sesame" not in str(refusal.value)


def test_a_file_holds_a_token_and_the_authority_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----")

    found = configuration_of(URL, f"file:{tmp_path}/token")

    assert found.host == URL.rstrip("/")
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.ssl_ca_cert == f"{tmp_path}/ca.crt"


def test_a_rotated_token_is_found_by_asking_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    before = configuration_of(URL, f"file:{tmp_path}/token")
    (tmp_path / "token").write_text("new-sesame")

    after = configuration_of(URL, f"file:{tmp_path}/token")

    assert before.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert after.get_api_key_with_prefix("BearerToken") == "Bearer new-sesame"
    assert after.ssl_ca_cert is None


@pytest.mark.parametrize(("url", "content"), [(URL, b" \n"), ("", b"sesame"), (URL, b"\xff\xfe")])
def test_a_file_without_a_usable_token_is_said_to_be_missing(
    tmp_path: Path, url: str, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(url, f"file:{tmp_path}/token")

    assert refusal.value.reason == "credentials_missing"


def test_inside_a_cluster_the_service_account_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("sesame")
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", f"{tmp_path}/token")
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", f"{tmp_path}/ca.crt")

    found = configuration_of("", "in-cluster")

    assert found.host == "https://10.96.0.1:443"
    assert found.get_api_key_with_prefix("BearerToken") == "bearer sesame"
    assert found.ssl_ca_cert == f"{tmp_path}/ca.crt"
    assert found.retries is False
