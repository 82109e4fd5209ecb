"""Tokens of clusters get their successor when half of their time is over."""

import base64
import json
import stat
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tenants.adapters import kubernetes_credentials
from tenants.adapters.guarded import forbidden_networks
from tenants.adapters.kubernetes_tokens import life_of
from tenants.models import AuditEntry, Cluster
from tests.support.builders import make_cluster
from tests.support.tenants.receivers import Receiver, receiving

SUBJECT = "system:serviceaccount:gpu-ledger:gpu-ledger-watcher"
DAY = timedelta(days=1)


def token(*, begun_ago: timedelta, subject: str = SUBJECT, name: str = "a") -> str:
    begin = datetime.now(UTC).replace(microsecond=0) - begun_ago
    claims = {
        "sub": subject,
        "iat": int(begin.timestamp()),
        "exp": int((begin + DAY).timestamp()),
        "jti": name,
    }
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def answer(text: str, *, status: str = "201 Created") -> bytes:
    body = json.dumps({"kind": "TokenRequest", "status": {"token": text}}).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


@pytest.fixture
def place(tmp_path: Path, settings: Settings) -> Path:
    settings.CLUSTER_SECRETS_DIR = tmp_path
    (tmp_path / "hopper").mkdir()
    return tmp_path / "hopper" / "token"


def register(receiver: Receiver) -> Cluster:
    return make_cluster(
        kubernetes_url=f"http://127.0.0.1:{receiver.port}",
        credential_reference="file:hopper/token",
    )


def renew() -> str:
    errors = StringIO()
    try:
        call_command("renew_cluster_tokens", stdout=StringIO(), stderr=errors)
    except CommandError:
        assert errors.getvalue()
    return errors.getvalue()


def refused() -> list[dict[str, Any]]:
    return [one.facts for one in AuditEntry.objects.filter(action="tenants:cluster:refuse")]


@pytest.mark.django_db
def test_a_token_past_half_of_its_time_is_replaced_by_one_of_its_own_account(place: Path) -> None:
    old, new = token(begun_ago=0.6 * DAY), token(begun_ago=0 * DAY, name="b")
    place.write_text(old)
    with receiving() as receiver:
        receiver.answer = answer(new)
        cluster = register(receiver)

        assert renew() == ""

    (post,) = receiver.posts
    assert post.path == "/api/v1/namespaces/gpu-ledger/serviceaccounts/gpu-ledger-watcher/token"
    assert post.headers["Authorization"] == f"Bearer {old}"
    assert json.loads(post.body)["spec"] == {"expirationSeconds": 86_400}
    assert place.read_text().strip() == new
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [path.name for path in place.parent.iterdir()] == ["token"]
    cluster.refresh_from_db()
    life = life_of(new)
    assert life is not None
    assert cluster.credential_expires_at == life.end_at
    entry = AuditEntry.objects.get(action="tenants:cluster:renew_credential")
    assert entry.facts == {"expires_at": life.end_at.isoformat()}


@pytest.mark.django_db
def test_a_young_token_is_kept_and_its_end_is_shown(place: Path) -> None:
    place.write_text(young := token(begun_ago=0.4 * DAY))
    with receiving() as receiver:
        cluster = register(receiver)

        assert renew() == ""

    assert receiver.posts == []
    assert place.read_text() == young
    cluster.refresh_from_db()
    assert cluster.credential_expires_at is not None
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answered", "sentence"),
    [
        (answer("x", status="403 Forbidden"), "refused a new token with 403"),
        (answer("x"), "a token of another account"),
        (
            answer(token(begun_ago=0 * DAY, subject="system:serviceaccount:kube-system:admin")),
            "a token of another account",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not answer as an API server does"),
    ],
)
def test_without_a_successor_the_old_token_stays(
    place: Path, answered: bytes, sentence: str
) -> None:
    place.write_text(old := token(begun_ago=0.6 * DAY))
    with receiving() as receiver:
        receiver.answer = answered
        register(receiver)

        said = renew()

    assert sentence in said
    assert old not in said
    assert place.read_text() == old


@pytest.mark.django_db
@pytest.mark.parametrize("reference", ["file:hopper/token", "file:./hopper/alias"])
def test_a_second_cluster_with_the_same_file_is_sent_nothing_and_replaces_nothing(
    place: Path, reference: str
) -> None:
    old, new = token(begun_ago=0.6 * DAY), token(begun_ago=0 * DAY, name="b")
    place.write_text(old)
    (place.parent / "alias").symlink_to("token")
    with receiving() as receiver, receiving() as listener:
        receiver.answer = answer(new)
        first = register(receiver)
        make_cluster(
            "apart",
            created_at=first.created_at + DAY,
            kubernetes_url=f"http://127.0.0.1:{listener.port}",
            credential_reference=reference,
        )

        said = renew()

    assert "apart: An older cluster has the same token" in said
    assert listener.posts == []
    assert place.read_text().strip() == new


@pytest.mark.django_db
def test_a_token_that_is_pinned_to_another_host_is_not_sent_for_its_successor(place: Path) -> None:
    place.write_text(old := token(begun_ago=0.6 * DAY))
    place.with_name("token.host").write_text("hopper.example.test")
    with receiving() as receiver:
        receiver.answer = answer(token(begun_ago=0 * DAY, name="b"))
        register(receiver)

        said = renew()

        said += renew()

    assert "hopper/token is pinned to another host, port or scheme" in said
    assert receiver.posts == []
    assert place.read_text() == old
    assert refused() == [{"code": "credentials_forbidden", "cluster": "hopper"}]


@pytest.mark.django_db
@pytest.mark.parametrize("reference", ["file:../outside", "file:leads-out"])
def test_a_token_outside_is_refused_and_audited(place: Path, reference: str) -> None:
    (place.parents[1] / "leads-out").symlink_to("/etc/hostname")
    make_cluster(kubernetes_url="https://10.0.0.1:6443", credential_reference=reference)

    said = renew()

    assert "are not used" in said
    assert refused() == [{"code": "credentials_forbidden", "cluster": "hopper"}]


@pytest.mark.django_db
def test_a_forbidden_address_is_refused_and_audited(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback stands for the address of a cloud's metadata service."""
    monkeypatch.setattr(kubernetes_credentials, "_FORBIDDEN", forbidden_networks(["127.0.0.0/8"]))
    place.write_text(token(begun_ago=0.6 * DAY))
    with receiving() as receiver:
        register(receiver)

        renew()

    assert receiver.posts == []
    assert refused() == [{"code": "forbidden_address", "cluster": "hopper"}]


@pytest.mark.parametrize("text", ["", "sesame", "a.b.c", "e30.e30.e30"])
def test_a_token_of_another_kind_has_no_known_end(text: str) -> None:
    assert life_of(text) is None
