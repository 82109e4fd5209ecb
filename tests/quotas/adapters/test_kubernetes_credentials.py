"""Where the credentials of a cluster come from."""

from pathlib import Path

import pytest

from quotas.adapters.kubernetes_credentials import configuration_of
from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError
from tests.quotas.builders import write_kubeconfig

URL = "https://kubernetes.example.test:6443/"


def test_a_kubeconfig_says_where_and_who(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://10.0.0.1:6443")

    found = configuration_of(EnforcementEndpoint("hopper", URL, f"kubeconfig:{path}"))

    assert found.host == "https://10.0.0.1:6443"
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.verify_ssl is True
    assert found.retries is False


def test_a_variable_holds_a_token_for_the_clusters_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPPER_TOKEN", " sesame\n")
    monkeypatch.setenv("HOPPER_TOKEN_CA_FILE", "/etc/hopper/ca.crt")

    found = configuration_of(EnforcementEndpoint("hopper", URL, "env:HOPPER_TOKEN"))

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
        (URL, "kubeconfig:/does/not/exist"),
        (URL, "in-cluster"),
    ],
)
def test_credentials_that_are_not_there_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, reference: str
) -> None:
    monkeypatch.setenv("HOPPER_TOKEN", "sesame")

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(EnforcementEndpoint("hopper", url, reference))

    assert refusal.value.reason == "credentials_missing"
    assert "hopper" in str(refusal.value)
    assert "sesame" not in str(refusal.value)
