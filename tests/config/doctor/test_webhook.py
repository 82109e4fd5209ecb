"""The doctor's check of the webhook: installed, with which policy, and for how long valid."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config.doctor import webhook
from config.doctor.clusters import ClusterFacts
from config.doctor.findings import CheckResult
from quotas.adapters.cluster_calls import ClusterCalls
from quotas.domain.admission.webhook_configuration import Registration, configurations
from simulator.kubernetes_api import KubernetesAPI
from tenants.models import Cluster
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to


def facts_of(reference: str, mode: str) -> ClusterFacts:
    cluster = Cluster(slug="hopper", credential_reference=reference, admission_mode=mode)
    return ClusterFacts(cluster, namespaces=(), backlog=timedelta(), watch=None)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebhookServer]:
    made = WebhookServer(tmp_path / "webhook", "127.0.0.1")
    yield made
    made.stop()


def register(wire: Wire, *, authority: str, url: str = "", **changes: str) -> None:
    registration = Registration("hopper", authority, url=url, service=changes.pop("service", ""))
    for plural, body in zip(("mutating", "validating"), configurations(registration), strict=True):
        for one in body["webhooks"]:
            one.update(changes)
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}webhookconfigurations"
        assert wire.post(path, body).code == 201


def admission(reference: str, mode: str = "enforce") -> list[CheckResult]:
    return list(webhook.check_webhook(facts_of(reference, mode), ClusterCalls()))


@pytest.fixture
def reference(kubernetes_api: KubernetesAPI, tmp_path: Path) -> str:
    return reference_to(kubernetes_api.kubeconfig(tmp_path / "admin"))


def decoded(server: WebhookServer) -> str:
    return base64.b64decode(server.authority).decode()


def test_a_webhook_that_answers_is_well(wire: Wire, reference: str, server: WebhookServer) -> None:
    register(wire, url=f"https://127.0.0.1:{server.port}", authority=decoded(server))

    policy, certificate = admission(reference)

    assert (policy.state, policy.found) == (
        "ok",
        "It is installed, in mode enforce and with failurePolicy Fail.",
    )
    assert certificate.state == "ok"
    assert certificate.found == f"127.0.0.1:{server.port}: valid for 825 days."


def test_a_webhook_that_lets_pods_pass_is_a_warning(
    wire: Wire, reference: str, server: WebhookServer
) -> None:
    url = f"https://127.0.0.1:{server.port}"
    register(wire, url=url, authority=decoded(server), failurePolicy="Ignore")

    enforced, warned = admission(reference)[0], admission(reference, "warn")[0]

    assert (enforced.state, enforced.found) == (
        "warning",
        (
            "It is installed with failurePolicy Ignore: while it does not answer, pods start"
            " uncounted."
        ),
    )
    assert enforced.remedy == (
        "Apply it with failurePolicy Fail once two replicas of the server run."
    )
    assert (warned.state, warned.found) == (
        "ok",
        "It is installed, in mode warn and with failurePolicy Ignore.",
    )


def test_a_webhook_that_leaves_pods_out_is_a_problem(
    wire: Wire, reference: str, server: WebhookServer
) -> None:
    url = f"https://127.0.0.1:{server.port}"
    register(wire, url=url, authority=decoded(server), matchPolicy="Exact")

    found = admission(reference)[0]

    assert (found.state, found.found) == (
        "problem",
        "pods.gpu-ledger.io: matchPolicy is not Equivalent.",
    )
    assert found.remedy == "Apply what `manage.py webhook_manifests --cluster hopper` prints."


def test_a_webhook_that_is_missing_or_away_is_a_problem(
    wire: Wire, reference: str, server: WebhookServer
) -> None:
    (missing,) = admission(reference)
    register(wire, url="https://127.0.0.1:1/x-secret-path", authority=decoded(server))
    _, away = admission(reference)

    assert (missing.state, missing.found) == (
        "problem",
        "The cluster has no webhook pods.gpu-ledger.io.",
    )
    assert missing.remedy == "Apply what `manage.py webhook_manifests --cluster hopper` prints."
    assert (away.state, away.found) == (
        "problem",
        "127.0.0.1:1 does not answer (ConnectionRefusedError).",
    )


def test_a_certificate_of_another_authority_is_a_problem(
    wire: Wire, reference: str, server: WebhookServer, kubernetes_api: KubernetesAPI
) -> None:
    url = f"https://127.0.0.1:{server.port}"
    register(wire, url=url, authority=kubernetes_api.identity.authority_pem)

    _, certificate = admission(reference)

    assert certificate.state == "problem"
    assert certificate.found.startswith(
        f"127.0.0.1:{server.port} shows a certificate that caBundle does not trust:"
    )


def test_of_a_service_the_authority_is_seen(
    wire: Wire, reference: str, server: WebhookServer
) -> None:
    register(wire, service="gpu-ledger/gpu-ledger-admission", authority=decoded(server))

    _, certificate = admission(reference)

    assert certificate.state == "ok"
    assert certificate.found == (
        "The Service gpu-ledger-admission.gpu-ledger.svc is seen only inside of the cluster; its"
        " authority: valid for 825 days."
    )


def test_without_admission_nothing_is_asked() -> None:
    (result,) = admission("", mode="off")

    assert result.found == "Admission is off: pods are not counted before they start."


def test_a_webhook_that_nobody_may_see_is_a_problem(
    kubernetes_api: KubernetesAPI, reference: str
) -> None:
    kubernetes_api.fail_next(403, resource="validatingwebhookconfigurations")

    (found,) = admission(reference)

    assert (found.check, found.state) == ("webhook", "problem")
    assert "403" in found.found


def test_a_cluster_without_an_api_cannot_show_its_webhook() -> None:
    (found,) = admission("")

    assert (found.state, found.found) == (
        "warning",
        "Its API is not known: whether the webhook is installed cannot be seen.",
    )
    assert found.remedy == "Set kubernetes_url and credential_reference of the cluster."


def test_an_empty_bundle_trusts_no_answer(wire: Wire, reference: str) -> None:
    register(wire, url="https://127.0.0.1:1", authority="")

    _, certificate = admission(reference)

    assert (certificate.state, certificate.found) == (
        "problem",
        "Its caBundle holds no certificate: the API server trusts no answer.",
    )
    assert certificate.remedy.startswith("Print the manifests again with --ca-file")


def authority_until(ends_at: datetime) -> str:
    """Return a certificate that signed itself, valid until a time."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "short-lived")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends_at - timedelta(days=90))
        .not_valid_after(ends_at)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("days", "state", "remaining"),
    [
        (60, "ok", "valid for 60 days."),
        (10, "warning", "valid for 10.0 days, until "),
        (-1, "problem", "valid for 0.0 days, until "),
    ],
)
def test_a_certificate_that_ends_soon_is_named_before_it_does(
    wire: Wire, reference: str, days: int, state: str, remaining: str
) -> None:
    ends_at = datetime.now(UTC) + timedelta(days=days, minutes=1)
    register(wire, service="gpu-ledger/gpu-ledger-admission", authority=authority_until(ends_at))

    _, certificate = admission(reference)

    assert certificate.state == state
    assert remaining in certificate.found
    if state != "ok":
        assert certificate.remedy == (
            "Issue a new certificate; with cert-manager see why it did not."
        )


def test_a_path_with_a_secret_is_not_shown(wire: Wire, reference: str) -> None:
    authority = authority_until(datetime.now(UTC) + timedelta(days=60))
    register(wire, url="https://127.0.0.1:1/s/a-secret-of-the-path", authority=authority)

    results = admission(reference)

    assert "a-secret-of-the-path" not in f"{results}"
