"""The Kubernetes enforcer against a small server that answers as reported."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings

from quotas.adapters import kubernetes
from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.protocols import DesiredQuota, EnforcementEndpoint, QuotaConflictError
from tenants.domain.errors import SourceUnavailableError
from tests.support.quotas.builders import write_kubeconfig
from tests.support.references import reference_to

GPU = "requests.nvidia.com/gpu"
DESIRED = DesiredQuota("llm", {GPU: 8}, generation=3)
PATH = "/api/v1/namespaces/llm/resourcequotas"


@dataclass
class Reported:
    """What the server answers, by method, first answer first; and what it was asked."""

    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)


def lower(headers: Message) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items()}


def quota_object(
    *, generation: int = 3, hard: dict[str, str] | None = None, version: str = "41"
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "gpu-ledger",
            "namespace": "llm",
            "resourceVersion": version,
            "annotations": {"gpu-ledger.io/generation": str(generation)},
        },
        "status": {"hard": hard or {GPU: "8"}, "used": {GPU: "2", "requests.cpu": "1"}},
    }


def status_of(code: int, message: str = "no", **further: object) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "code": code, "message": message, **further}


def listed(*objects: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 200, {"kind": "ResourceQuotaList", "apiVersion": "v1", "items": list(objects)}


ABSENT = listed()


@pytest.fixture
def reported() -> Reported:
    return Reported()


@pytest.fixture
def endpoint(reported: Reported, tmp_path: Path) -> Iterator[EnforcementEndpoint]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            reported.asked.append((self.command, self.path, lower(self.headers), body))
            queue = reported.answers[self.command]
            code, document = queue.pop(0) if len(queue) > 1 else queue[0]
            raw = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_PATCH = answer  # noqa: N815 - http.server's own names.

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
    yield EnforcementEndpoint("hopper", "", reference_to(path))
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def enforcer() -> KubernetesQuotaEnforcer:
    return KubernetesQuotaEnforcer(read_tries=3, read_every_seconds=0)


def test_a_quota_is_written_by_server_side_apply_as_our_own_manager(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    reported.answers = {"GET": [ABSENT, listed(quota_object())], "PATCH": [(201, quota_object())]}

    live = enforcer.apply(endpoint, DESIRED)

    assert (dict(live.hard), dict(live.used), live.generation) == ({GPU: 8}, {GPU: 2}, 3)
    ((_, path, headers, body),) = [asked for asked in reported.asked if asked[0] == "PATCH"]
    assert path == f"{PATH}/gpu-ledger?fieldManager=gpu-ledger&force=false"
    assert headers["content-type"] == "application/apply-patch+yaml"
    assert headers["authorization"] == "Bearer sesame"
    assert body == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "gpu-ledger",
            "namespace": "llm",
            "labels": {"app.kubernetes.io/managed-by": "gpu-ledger"},
            "annotations": {"gpu-ledger.io/generation": "3"},
        },
        "spec": {"hard": {GPU: "8"}},
    }


def test_what_was_read_is_named_so_that_nobody_is_overwritten_unseen(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    reported.answers = {"GET": [listed(quota_object())], "PATCH": [(200, quota_object())]}

    enforcer.apply(endpoint, DESIRED)

    bodies = [body for method, _, _, body in reported.asked if method == "PATCH"]
    assert bodies[0]["metadata"]["resourceVersion"] == "41"


def test_a_write_in_between_is_read_again_a_few_times(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    changed = status_of(409, "the object has been modified", reason="Conflict")
    reported.answers = {"GET": [listed(quota_object())], "PATCH": [changed]}

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.apply(endpoint, DESIRED)

    assert refusal.value.reason == "busy"
    assert [asked[0] for asked in reported.asked] == ["GET", "PATCH"] * 3


def test_a_conflict_names_every_manager_once(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{name}" using v1'}
        for name in ("kubectl-edit", "argocd", "kubectl-edit")
    ]
    reported.answers = {
        "GET": [ABSENT],
        "PATCH": [status_of(409, "Apply failed", details={"causes": causes})],
    }

    with pytest.raises(QuotaConflictError) as refusal:
        enforcer.apply(endpoint, DESIRED)

    assert refusal.value.managers == ("argocd", "kubectl-edit")
    assert len(reported.asked) == 2


def test_a_status_that_lags_is_read_until_the_tries_are_used_up(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    late = listed(quota_object(hard={GPU: "4"}))
    reported.answers = {"GET": [ABSENT, late, late, listed(quota_object())], "PATCH": [late]}
    caught_up = enforcer.apply(endpoint, DESIRED)
    reported.answers = {"GET": [ABSENT, late], "PATCH": [late]}
    reported.asked.clear()

    stayed_behind = enforcer.apply(endpoint, DESIRED)

    assert (dict(caught_up.hard), dict(stayed_behind.hard)) == ({GPU: 8}, {GPU: 4})
    assert [asked[0] for asked in reported.asked] == ["GET", "PATCH", "GET", "GET", "GET"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "namespace_missing"),
        (422, "refused"),
        (429, "throttled"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_every_refusal_has_its_reason(
    reported: Reported,
    endpoint: EnforcementEndpoint,
    enforcer: KubernetesQuotaEnforcer,
    code: int,
    reason: str,
) -> None:
    reported.answers = {"GET": [ABSENT], "PATCH": [status_of(code, "because")]}

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.apply(endpoint, DESIRED)

    assert refusal.value.reason == reason
    assert str(refusal.value) == f"The quota of llm was answered with {code}: because"
    assert [asked[0] for asked in reported.asked] == ["GET", "PATCH"]


@pytest.mark.parametrize("raw", [b"<html>Bad gateway</html>", b"[]"])
def test_a_proxy_that_answers_in_its_stead_is_no_crash(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer, raw: bytes
) -> None:
    reported.answers = {"GET": [(502, raw)]}

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.read(endpoint, "llm")

    assert refusal.value.reason == "server_error"


def test_a_fraction_of_a_device_is_not_believed(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    reported.answers = {"GET": [listed(quota_object(hard={GPU: "500m"}))]}

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.read(endpoint, "llm")

    assert refusal.value.reason == "bad_answer"


def test_an_object_without_our_stamp_has_generation_zero(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    foreign = quota_object()
    foreign["metadata"]["annotations"] = {"gpu-ledger.io/generation": "many"}
    bare = quota_object()
    del bare["metadata"]["annotations"], bare["status"]
    reported.answers = {"GET": [listed(foreign), listed(bare)]}

    assert enforcer.read(endpoint, "llm").generation == 0
    assert enforcer.read(endpoint, "llm").hard == {}


def test_rotated_credentials_are_read_again_after_a_refusal(
    reported: Reported, endpoint: EnforcementEndpoint, enforcer: KubernetesQuotaEnforcer
) -> None:
    reported.answers = {"GET": [status_of(401), listed(quota_object())]}
    path = settings.CLUSTER_SECRETS_DIR / endpoint.credential_reference.removeprefix("kubeconfig:")

    with pytest.raises(SourceUnavailableError):
        enforcer.read(endpoint, "llm")
    server = json.loads(path.read_text())["clusters"][0]["cluster"]["server"]
    write_kubeconfig(path.parent, server, token="new-sesame")
    enforcer.read(endpoint, "llm")

    tokens = [headers["authorization"] for _, _, headers, _ in reported.asked]
    assert tokens == ["Bearer sesame", "Bearer new-sesame"]


def test_nobody_there_is_unreachable(tmp_path: Path, enforcer: KubernetesQuotaEnforcer) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    nowhere = EnforcementEndpoint("hopper", "", reference_to(path))

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.read(nowhere, "llm")

    assert refusal.value.reason == "unreachable"
    assert "sesame" not in str(refusal.value)


def test_a_silent_server_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = partial(ClusterCalls, timeout_seconds=(1, Decimal("0.2")))
    monkeypatch.setattr(kubernetes, "ClusterCalls", impatient)
    enforcer = KubernetesQuotaEnforcer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")

    with pytest.raises(SourceUnavailableError) as refusal:
        enforcer.read(EnforcementEndpoint("hopper", "", reference_to(path)), "llm")
    server.server_close()

    assert refusal.value.reason == "timeout"
