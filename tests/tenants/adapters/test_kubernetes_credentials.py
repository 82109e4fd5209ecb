"""Where the credentials of a cluster come from."""

import json
import traceback
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.config import incluster_config
from pytest_django import Settings

from tenants.adapters import kubernetes_credentials as credentials
from tenants.adapters.guarded import forbidden_networks
from tenants.domain.errors import SourceUnavailableError
from tests.support.quotas.builders import write_kubeconfig
from tests.support.references import reference_to
from tests.support.tenants.receivers import receiving

URL = "https://kubernetes.example.test:6443/"


def configuration_of(url: str, reference: str) -> client.Configuration:
    return credentials.configuration_of(slug="hopper", url=url, reference=reference)


def test_a_kubeconfig_says_where_and_who(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://10.0.0.1:6443")

    found = configuration_of(URL, reference_to(path))

    assert found.host == "https://10.0.0.1:6443"
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.verify_ssl is True
    assert found.retries is False


def test_a_variable_holds_a_token_for_the_clusters_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", " sesame\n")
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER_CA_FILE", "/etc/hopper/ca.crt")

    found = configuration_of(URL, "env:CLUSTER_SECRET_HOPPER")

    assert found.host == URL.rstrip("/")
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.ssl_ca_cert == "/etc/hopper/ca.crt"


@pytest.mark.parametrize(
    ("url", "reference"),
    [
        (URL, ""),
        (URL, "vault:hopper"),
        (URL, "env:CLUSTER_SECRET_NOT_SET"),
        ("", "env:CLUSTER_SECRET_HOPPER"),
        (URL, "file:does/not/exist"),
        (URL, "kubeconfig:does/not/exist"),
        (URL, "in-cluster"),
    ],
)
def test_credentials_that_are_not_there_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, reference: str
) -> None:
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", "sesame")

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(url, reference)

    assert refusal.value.reason == "credentials_missing"
    assert "hopper" in str(refusal.value)
    assert "sesame" not in str(refusal.value)


def test_a_file_holds_a_token_and_the_authority_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----")

    found = configuration_of(URL, reference_to(tmp_path / "token", kind="file"))

    assert found.host == URL.rstrip("/")
    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert found.ssl_ca_cert == f"{tmp_path}/ca.crt"


@pytest.mark.parametrize(
    "pin",
    [
        "other.example.test",
        "",
        "kubernetes.example.test.evil",
        "kubernetes.example.test",
        "kubernetes.example.test:443",
        "http://kubernetes.example.test:6443",
    ],
)
def test_a_pinned_token_goes_to_no_other_origin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pin: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "token").write_text("sesame")
    (tmp_path / "secret" / "token.host").write_text(pin)
    (tmp_path / "linked").symlink_to("secret/token")
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", "sesame")
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER_HOST", pin)
    directory = reference_to(tmp_path, kind="file")

    for reference in (
        "env:CLUSTER_SECRET_HOPPER",
        f"{directory}/secret/token",
        f"{directory}/linked",
    ):
        with pytest.raises(SourceUnavailableError) as refusal:
            configuration_of(URL, reference)

        assert refusal.value.reason == "credentials_forbidden"


@pytest.mark.parametrize("pinned", ["kubeconfig", "token", "ca.crt", "secret"])
def test_a_pinned_file_of_a_kubeconfig_goes_to_no_other_origin(secrets: Path, pinned: str) -> None:
    (secrets / "secret").write_text("sesame")
    (secrets / "token").symlink_to("secret")
    (secrets / "ca.crt").write_text("-----BEGIN CERTIFICATE-----")
    path = write_kubeconfig(secrets, "https://10.0.0.1:6443")
    document = json.loads(path.read_text())
    document["users"][0]["user"] = {"tokenFile": "token"}
    document["clusters"][0]["cluster"] |= {"certificate-authority": "ca.crt"}
    path.write_text(json.dumps(document))
    pin = secrets / f"{pinned}.host"

    pin.write_text("10.0.0.1:6443")
    found = configuration_of(URL, "kubeconfig:kubeconfig")
    pin.write_text("10.0.0.1:443")
    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, "kubeconfig:kubeconfig")

    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert refusal.value.reason == "credentials_forbidden"
    assert "https://10.0.0.1:6443" in str(refusal.value)


def test_a_pinned_token_goes_to_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    (tmp_path / "token.host").write_text("10.0.0.1\nKubernetes.example.test:6443\n")

    pinned = configuration_of(URL, reference_to(tmp_path / "token", kind="file"))

    assert pinned.get_api_key_with_prefix("BearerToken") == "Bearer sesame"


def test_a_rotated_token_is_found_by_asking_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    before = configuration_of(URL, reference_to(tmp_path / "token", kind="file"))
    (tmp_path / "token").write_text("new-sesame")

    after = configuration_of(URL, reference_to(tmp_path / "token", kind="file"))

    assert before.get_api_key_with_prefix("BearerToken") == "Bearer sesame"
    assert after.get_api_key_with_prefix("BearerToken") == "Bearer new-sesame"
    assert after.ssl_ca_cert is None


@pytest.mark.parametrize(("url", "content"), [(URL, b" \n"), ("", b"sesame"), (URL, b"\xff\xfe")])
def test_a_file_without_a_usable_token_is_said_to_be_missing(
    tmp_path: Path, url: str, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(url, reference_to(tmp_path / "token", kind="file"))

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


@pytest.fixture
def secrets(tmp_path: Path, settings: Settings) -> Path:
    """The directory of secrets, beside which lies another secret."""
    (tmp_path / "outside").write_text("pepper")
    folder = tmp_path / "clusters"
    folder.mkdir()
    settings.CLUSTER_SECRETS_DIR = folder
    return folder


@pytest.mark.parametrize("kind", ["file", "kubeconfig"])
@pytest.mark.parametrize(
    "name",
    ["/proc/self/environ", "../outside", "linked", "linked-folder/outside", "{tmp_path}/outside"],
)
def test_a_path_that_leads_outside_is_not_read(
    secrets: Path, tmp_path: Path, kind: str, name: str
) -> None:
    (secrets / "linked").symlink_to("../outside")
    (secrets / "linked-folder").symlink_to(tmp_path)

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, f"{kind}:{name.format(tmp_path=tmp_path)}")

    assert refusal.value.reason == "credentials_forbidden"
    assert "pepper" not in str(refusal.value)
    assert str(secrets) in str(refusal.value)


def test_a_link_that_stays_inside_is_followed(secrets: Path) -> None:
    """As Kubernetes mounts a secret: `token` links to `..data/token`, and that to a folder."""
    (secrets / "..2026").mkdir()
    (secrets / "..2026" / "token").write_text("sesame")
    (secrets / "..data").symlink_to("..2026")
    (secrets / "token").symlink_to("..data/token")

    found = configuration_of(URL, "file:token")

    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"


@pytest.mark.parametrize("name", ["DATABASE_URL", "API_TOKEN_PEPPER", "PATH"])
def test_a_variable_of_the_service_itself_is_not_read(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "pepper")

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, f"env:{name}")

    assert refusal.value.reason == "credentials_forbidden"
    assert "pepper" not in str(refusal.value)


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"exec": {"command": "/bin/true"}}, {}),
        ({"auth-provider": {"name": "gcp"}}, {}),
        ({"tokenFile": "../outside"}, {}),
        ({"tokenFile": "/proc/self/environ"}, {}),
        ({"client-certificate": "../outside", "client-key-data": ""}, {}),
        ({"client-key": "../outside"}, {}),
        ({"token": "sesame"}, {"certificate-authority": "../outside"}),
        ({"token": "sesame"}, {"proxy-url": "http://127.0.0.1:1"}),
    ],
)
def test_a_kubeconfig_runs_no_program_and_names_no_file_outside(
    secrets: Path, user: dict[str, object], cluster: dict[str, object]
) -> None:
    path = write_kubeconfig(secrets, "https://10.0.0.1:6443")
    document = json.loads(path.read_text())
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster
    path.write_text(json.dumps(document))

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, "kubeconfig:kubeconfig")

    assert refusal.value.reason == "credentials_forbidden"
    assert "pepper" not in str(refusal.value)


def test_a_kubeconfig_names_files_beside_it(secrets: Path) -> None:
    folder = secrets / "hopper"
    folder.mkdir()
    (folder / "token").write_text("sesame")
    path = write_kubeconfig(folder, "https://10.0.0.1:6443")
    document = json.loads(path.read_text())
    document["users"][0]["user"] = {"tokenFile": "token"}
    path.write_text(json.dumps(document))

    found = configuration_of(URL, "kubeconfig:hopper/kubeconfig")

    assert found.get_api_key_with_prefix("BearerToken") == "Bearer sesame"


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", "sesame")

    assert configuration_of(URL, "env:CLUSTER_SECRET_HOPPER").proxy is None


def test_a_call_into_a_forbidden_network_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Loopback stands for the address of a cloud's metadata service."""
    monkeypatch.setattr(credentials, "_FORBIDDEN", forbidden_networks(["127.0.0.0/8"]))
    with receiving() as receiver:
        path = write_kubeconfig(tmp_path, f"http://localhost:{receiver.port}")
        made = credentials.guarded_client(configuration_of("", reference_to(path)))

        with pytest.raises(SourceUnavailableError) as refusal:
            client.CoreV1Api(made).list_node()

    assert refusal.value.reason == "forbidden_address"
    assert receiver.posts == []


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("file", "a\nTOPSECRET\n", "credentials_missing"),
        ("file", "apiVersion: v1\nkind: Secret\ntoken: TOPSECRET\n", "credentials_forbidden"),
        ("kubeconfig", "", "credentials_missing"),
    ],
)
def test_a_file_of_several_lines_is_no_token_and_its_text_is_repeated_nowhere(
    tmp_path: Path, kind: str, text: str, reason: str
) -> None:
    """The text stood in the error of sending it, and so in the log."""
    path = tmp_path / "secret"
    path.write_text(text or write_kubeconfig(tmp_path, URL, "a\nTOPSECRET").read_text())

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, reference_to(path, kind=kind))

    assert refusal.value.reason == reason
    assert "TOPSECRET" not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize("kind", ["file", "env", "tokenFile"])
def test_a_kubeconfig_is_no_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """The attack: one line of JSON without spaces, which a header takes."""
    path = write_kubeconfig(tmp_path, "https://10.0.0.1:6443")
    text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("CLUSTER_SECRET_CONFIG", text)
    path.write_text(path.read_text().replace('"token": "sesame"', '"tokenFile": "config"'))
    references = {
        "file": reference_to(tmp_path / "config", kind="file"),
        "env": "env:CLUSTER_SECRET_CONFIG",
        "tokenFile": reference_to(path),
    }

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, references[kind])

    assert refusal.value.reason == "credentials_forbidden"
    assert "sesame" not in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "users: [abc]",
        "users: 5",
        "users: abc\nclusters: {a: b}",
        "- 1",
        "users: [{user: [x]}]",
        "contexts: [abc]\ncurrent-context: a",
        "current-context: a\ncontexts: [{name: a, context: 5}]\nclusters: [5]",
    ],
)
def test_a_kubeconfig_that_is_none_is_said_to_be_missing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(SourceUnavailableError) as refusal:
        configuration_of(URL, reference_to(path))

    assert refusal.value.reason == "credentials_missing"
