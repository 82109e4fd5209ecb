"""Attacks with another cluster's secret: a listener's URL, and a name that leads to its file."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_django import Settings
from rest_framework.response import Response
from rest_framework.test import APIClient

from tenants.domain.hours import floor_hour
from tenants.models import Cluster, SecretHost
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import write_kubeconfig
from tests.support.tenants.clients import api_client

HERE = "/api/v1/clusters/"
OWN, LISTENER = "https://hopper.example.test:6443", "https://listener.example.test"
FIELDS = {
    "credential_reference": "kubernetes_url",
    "prometheus_credential_reference": "prometheus_url",
}


@pytest.fixture
def secrets(settings: Settings, tmp_path: Path) -> Path:
    settings.CLUSTER_SECRETS_DIR = tmp_path
    (tmp_path / "hopper").mkdir()
    (tmp_path / "hopper" / "token").write_text("sesame", encoding="utf-8")
    return tmp_path


@pytest.fixture
def frank(cast: Cast) -> APIClient:
    return api_client(cast.frank)


def register(client: APIClient, slug: str, reference: str, url: str, **fields: str) -> Response:
    field = "prometheus_credential_reference" if url.startswith("http:") else "credential_reference"
    if reference.startswith("basic-"):
        field = "prometheus_credential_reference"
    named = {FIELDS[field]: url, field: reference} if url else {field: reference}
    begin = floor_hour(datetime.now(UTC)).isoformat()
    return client.post(HERE, {"slug": slug, "name": slug, "metered_from": begin, **named, **fields})


def refusal(answer: Response) -> tuple[int, str, str]:
    (problem,) = json.loads(answer.content).get("problems") or [{}]
    return answer.status_code, problem.get("field", ""), problem.get("code", "")


def kubeconfig(
    folder: Path, *, user: dict[str, str], cluster: dict[str, str] | None = None
) -> None:
    path = write_kubeconfig(folder, OWN)
    document = json.loads(path.read_text())
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster or {}
    path.write_text(json.dumps(document), encoding="utf-8")


REFUSED = (422, "credential_reference", "secret_of_another_host")


@pytest.mark.parametrize(
    "alias", ["file:alias", "file:./alias", "file:linked/token", "file:hopper//token"]
)
def test_a_link_or_another_spelling_leads_a_secret_to_no_listener(
    secrets: Path, frank: APIClient, alias: str
) -> None:
    (secrets / "alias").symlink_to("hopper/token")
    (secrets / "linked").symlink_to("hopper")
    assert register(frank, "hopper", "file:hopper/token", OWN).status_code == 201

    evil = register(frank, "evil", alias, LISTENER)

    assert refusal(evil) == REFUSED
    assert list(Cluster.objects.values_list("slug", flat=True)) == ["hopper"]


def test_a_secret_that_was_named_by_a_link_goes_to_no_listener_by_its_own_name(
    secrets: Path, frank: APIClient
) -> None:
    (secrets / "alias").symlink_to("hopper/token")
    assert register(frank, "hopper", "file:alias", OWN).status_code == 201

    assert refusal(register(frank, "evil", "file:hopper/token", LISTENER)) == REFUSED


@pytest.mark.parametrize("before", ["known", "file comes later"])
def test_a_link_that_a_cluster_names_already_keeps_its_secret(
    secrets: Path, frank: APIClient, before: str
) -> None:
    """What was pinned by its name alone gets the pin of its file before another is registered."""
    if before == "known":
        make_cluster("hopper", kubernetes_url=OWN, credential_reference="file:alias")
    else:
        assert register(frank, "hopper", "file:alias", OWN).status_code == 201
    (secrets / "alias").symlink_to("hopper/token")

    assert refusal(register(frank, "evil", "file:hopper/token", LISTENER)) == REFUSED
    assert register(frank, "newton", "file:hopper/token", OWN).status_code == 201


def test_links_that_lead_to_each_other_are_refused_and_keep_no_other_cluster_out(
    secrets: Path, frank: APIClient
) -> None:
    make_cluster("circle", kubernetes_url=OWN, credential_reference="file:one")
    (secrets / "one").symlink_to("two")
    (secrets / "two").symlink_to("one")

    refused = register(frank, "evil", "file:two", LISTENER)
    made = register(frank, "hopper", "file:hopper/token", OWN)

    assert refusal(refused) == (422, "credential_reference", "path_forbidden")
    assert made.status_code == 201


@pytest.mark.parametrize("user", ["tokenFile", "client-key", "client-certificate"])
@pytest.mark.parametrize("before", ["registered", "known", "file comes later"])
def test_files_that_a_kubeconfig_names_go_to_no_listener(
    secrets: Path, frank: APIClient, user: str, before: str
) -> None:
    def name_it() -> None:
        kubeconfig(secrets / "hopper", user={user: "token"})

    if before == "registered":
        name_it()
    if before == "known":
        make_cluster("hopper", credential_reference="kubeconfig:hopper/kubeconfig")
    else:
        made = register(frank, "hopper", "kubeconfig:hopper/kubeconfig", "")
        assert made.status_code == 201
    name_it()

    for kind in ("file", "basic-file"):
        field = "credential_reference" if kind == "file" else "prometheus_credential_reference"
        evil = register(frank, "evil", f"{kind}:hopper/token", LISTENER)
        assert refusal(evil) == (422, field, "secret_of_another_host")
    assert register(frank, "own", "file:hopper/token", OWN).status_code == 201


def test_an_authority_goes_to_no_listener_but_serves_several_kubeconfigs(
    secrets: Path, frank: APIClient
) -> None:
    (secrets / "ca.crt").symlink_to("hopper/token")
    for slug in ("hopper", "newton"):
        (secrets / slug).mkdir(exist_ok=True)
        (secrets / slug / "ca.crt").symlink_to("../ca.crt")
        kubeconfig(
            secrets / slug,
            user={"token": "sesame"},
            cluster={"certificate-authority": "ca.crt", "server": f"https://{slug}.example.test"},
        )
        made = register(frank, slug, f"kubeconfig:{slug}/kubeconfig", "")
        assert made.status_code == 201

    assert refusal(register(frank, "evil", "file:hopper/token", LISTENER)) == REFUSED


def test_a_kubeconfig_has_the_pin_of_its_first_server(secrets: Path, frank: APIClient) -> None:
    reference = "kubeconfig:hopper/kubeconfig"
    write_kubeconfig(secrets / "hopper", OWN)
    assert register(frank, "hopper", reference, "").status_code == 201
    write_kubeconfig(secrets / "hopper", LISTENER)

    moved = register(frank, "moved", reference, "")
    (secrets / "hopper" / "kubeconfig.host").write_text("listener.example.test", encoding="utf-8")
    pinned = register(frank, "pinned", reference, "")

    assert refusal(moved) == REFUSED
    assert pinned.status_code == 201
    assert SecretHost.objects.get(secret="file:hopper/kubeconfig").origin == OWN


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("https://prometheus.example", "http://prometheus.example"),
        ("https://prometheus.example", "https://prometheus.example:9999"),
        ("https://prometheus.example", "http://prometheus.example:443"),
        ("http://prometheus.example", "http://prometheus.example:443"),
        ("https://prometheus.example:9090", "https://prometheus.example"),
    ],
)
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_secret_goes_to_no_other_port_and_scheme(
    secrets: Path, frank: APIClient, own: str, other: str, *, is_pinned: bool
) -> None:
    reference = "basic-file:hopper/token"
    if is_pinned:
        (secrets / "hopper" / "token.host").write_text(own, encoding="utf-8")

    made = register(frank, "hopper", reference, own)
    evil = register(frank, "evil", reference, other)

    assert made.status_code == 201
    assert refusal(evil) == (422, "prometheus_credential_reference", "secret_of_another_host")
    message = json.loads(evil.content)["problems"][0]["message"]
    assert "hopper/token.host" in message
    assert other in message


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    ("own", "same"),
    [
        ("https://prometheus.example", "https://PROMETHEUS.example:443/prometheus"),
        ("http://prometheus.example:80", "http://prometheus.example/"),
        ("https://[2001:db8::1]:9090", "https://[2001:DB8::1]:09090/?a=b"),
    ],
)
def test_one_origin_may_be_written_in_several_ways(frank: APIClient, own: str, same: str) -> None:
    for slug, url in (("one", own), ("two", same)):
        assert register(frank, slug, "basic-file:hopper/token", url).status_code == 201


@pytest.mark.parametrize(
    ("pin", "url", "is_allowed"),
    [
        ("hopper.example", "https://hopper.example", True),
        ("hopper.example", "https://hopper.example:6443", False),
        ("hopper.example", "http://hopper.example", False),
        ("hopper.example:6443", "https://hopper.example:6443", True),
        ("hopper.example:6443", "https://hopper.example", False),
        ("http://hopper.example:9090", "http://hopper.example:9090", True),
        ("http://hopper.example:9090", "https://hopper.example:9090", False),
        ("https://hopper.example/prometheus", "https://hopper.example", True),
        ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443", True),
        ("2001:db8::1", "https://[2001:db8::1]", False),
        ("*", "https://hopper.example", False),
    ],
)
def test_an_operators_pin_without_scheme_or_port_is_for_https_and_its_port(
    secrets: Path, frank: APIClient, pin: str, url: str, *, is_allowed: bool
) -> None:
    (secrets / "hopper" / "token.host").write_text(f"other.example\n{pin}\n", encoding="utf-8")

    answer = register(frank, "hopper", "basic-file:hopper/token", url)

    assert answer.status_code == (201 if is_allowed else 422)


def test_a_pin_whose_origin_is_not_known_releases_nothing(secrets: Path, frank: APIClient) -> None:
    """As the migration leaves one whose cluster is gone, until an operator writes the pin."""
    SecretHost.objects.create(
        secret="file:hopper/token", origin="", created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )

    refused = register(frank, "hopper", "file:hopper/token", OWN)
    (secrets / "hopper" / "token.host").write_text("hopper.example.test:6443", encoding="utf-8")
    made = register(frank, "hopper", "file:hopper/token", OWN)

    assert refusal(refused) == REFUSED
    assert made.status_code == 201
