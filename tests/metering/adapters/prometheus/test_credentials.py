"""Credentials for a Prometheus: sent with every query, read anew, and reported to nobody."""

import json
from base64 import b64encode
from datetime import timedelta
from pathlib import Path

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import ClusterTarget, Observation
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    HOUR,
    Reply,
    World,
    observe,
    serving,
    sound_world,
    target_of,
)
from tests.support.quotas.builders import write_kubeconfig
from tests.support.references import reference_to

TOKEN = "eyJhbGciOi.secret-words"


def observed_by(source: PrometheusUsageSource, target: ClusterTarget) -> Observation:
    return source.observe(
        target,
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        as_of=HOUR + timedelta(hours=2),
    )


def sent(world: World, name: str) -> set[str | None]:
    return {headers.get(name) for headers in world.heard}


def test_nothing_is_presented_where_nothing_is_named() -> None:
    world = sound_world()

    observe(world)

    assert sent(world, "Authorization") == sent(world, "X-Scope-OrgID") == {None}


def test_a_token_goes_with_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    world = sound_world()
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", f" {TOKEN}\n")

    observe(
        world,
        prometheus_credential_reference="env:CLUSTER_SECRET_HOPPER",
        prometheus_scope_org_id="research|platform",
    )

    assert sent(world, "Authorization") == {f"Bearer {TOKEN}"}
    assert sent(world, "X-Scope-OrgID") == {"research|platform"}


@pytest.mark.parametrize("text", ["meter:pass:wörd", "meter:pass:", "meter:{pass", "meter:a #b"])
def test_a_user_and_password_go_with_every_query(tmp_path: Path, text: str) -> None:
    world = sound_world()
    secret = tmp_path / "secret"
    secret.write_text(f"{text}\n", encoding="utf-8")

    observe(world, prometheus_credential_reference=reference_to(secret, kind="basic-file"))

    expected = b64encode(text.encode()).decode()
    assert sent(world, "Authorization") == {f"Basic {expected}"}


@pytest.mark.parametrize(
    "pin", ["mimir.example.test", "127.0.0.1", "https://127.0.0.1:{port}", "http://127.0.0.1:9999"]
)
def test_a_pinned_secret_goes_to_no_other_origin(tmp_path: Path, pin: str) -> None:
    world, secret = sound_world(), tmp_path / "secret"
    secret.write_text("meter:password", encoding="utf-8")
    reference = reference_to(secret, kind="basic-file")
    with serving(world) as url:
        target = target_of(url, prometheus_credential_reference=reference)
        port = url.rpartition(":")[2].strip("/")

        (tmp_path / "secret.host").write_text(pin.format(port=port), encoding="utf-8")
        with pytest.raises(SourceUnavailableError) as refusal:
            observed_by(PrometheusUsageSource(), target)
        assert (refusal.value.reason, world.heard) == ("credentials_forbidden", [])
        assert "secret.host" in str(refusal.value)

        (tmp_path / "secret.host").write_text(f"localhost {url}", encoding="utf-8")
        observed_by(PrometheusUsageSource(), target)
        assert None not in sent(world, "Authorization")


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("kind", ["file", "basic-file", "env", "basic-env"])
def test_a_kubeconfig_is_sent_as_no_token_and_no_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, separators: tuple[str, str]
) -> None:
    """The attack: one line of JSON is a bearer token, and user:password, as far as headers go."""
    world, path = sound_world(), write_kubeconfig(tmp_path, "https://10.0.0.1:6443")
    path.write_text(json.dumps(json.loads(path.read_text()), separators=separators))
    monkeypatch.setenv("CLUSTER_SECRET_CONFIG", path.read_text())
    is_file = kind.endswith("file")
    reference = reference_to(path, kind=kind) if is_file else f"{kind}:CLUSTER_SECRET_CONFIG"

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(world, prometheus_credential_reference=reference)

    assert (refusal.value.reason, world.heard) == ("credentials_forbidden", [])
    assert "sesame" not in str(refusal.value)
    assert "one token or user:password" in str(refusal.value)


def test_a_rotated_token_is_found_at_the_next_window(tmp_path: Path) -> None:
    world, source, secret = sound_world(), PrometheusUsageSource(), tmp_path / "token"
    with serving(world) as url:
        target = target_of(url, prometheus_credential_reference=reference_to(secret, kind="file"))
        for token in ("first", "second"):
            secret.write_text(token, encoding="utf-8")
            world.heard.clear()
            observed_by(source, target)

            assert sent(world, "Authorization") == {f"Bearer {token}"}


def test_one_clusters_credentials_are_not_presented_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, source = sound_world(), PrometheusUsageSource()
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", TOKEN)
    with serving(world) as url:
        with_token = target_of(url, prometheus_credential_reference="env:CLUSTER_SECRET_HOPPER")
        observed_by(source, with_token)
        world.heard.clear()

        observed_by(source, target_of(url, slug="ampere"))
        observed_by(source, target_of(url))

    assert sent(world, "Authorization") == {None}


@pytest.mark.parametrize(
    "reference",
    [
        "env:CLUSTER_SECRET_NOT_SET",
        "env:CLUSTER_SECRET_TWO_LINES",
        "file:nowhere/at/all",
        "file:.",
        "basic-env:CLUSTER_SECRET_NO_PASSWORD",
        "basic-env:CLUSTER_SECRET_TWO_LINES",
        "vault:secret/prometheus",
        TOKEN,
    ],
)
def test_a_reference_that_leads_nowhere_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    world = sound_world()
    monkeypatch.setenv("CLUSTER_SECRET_TWO_LINES", "a:secret\r\nX-Evil: 1")
    monkeypatch.setenv("CLUSTER_SECRET_NO_PASSWORD", "secret")

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(world, prometheus_credential_reference=reference)

    assert refusal.value.reason == "credentials_missing"
    assert "secret" not in str(refusal.value)
    assert world.asked == []


@pytest.mark.parametrize(
    "reference",
    [
        "env:DATABASE_URL",
        "env:API_TOKEN_PEPPER",
        "basic-env:REDIS_URL",
        "env:HOPPER_PROMETHEUS",
        "env:",
        "file:/proc/self/environ",
        "basic-file:/run/secrets/database_url",
        "file:../secret",
    ],
)
def test_a_reference_that_leads_outside_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    """The attack: a listener as Prometheus, and the service's own secret as its credential."""
    world = sound_world()
    for name in ("DATABASE_URL", "API_TOKEN_PEPPER", "REDIS_URL", "HOPPER_PROMETHEUS"):
        monkeypatch.setenv(name, "own:secret")

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(world, prometheus_credential_reference=reference)

    assert refusal.value.reason == "credentials_forbidden"
    assert "own:secret" not in str(refusal.value)
    assert world.asked == []


def test_a_file_that_is_no_text_is_not_repeated(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_bytes(b"secret\xff")

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(sound_world(), prometheus_credential_reference=reference_to(secret, kind="file"))

    assert refusal.value.reason == "credentials_missing"
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize("scope", ["a b", "a\r\nX-Evil: 1", "a/b", "é", "x" * 257])
def test_a_tenant_that_cannot_stand_in_a_header_asks_nothing(scope: str) -> None:
    world = sound_world()

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(world, prometheus_scope_org_id=scope)

    assert refusal.value.reason == "bad_target"
    assert world.asked == []


def test_a_refused_token_is_reported_without_its_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", TOKEN)
    world = World(observations=Reply(TOKEN.encode(), 401))

    with caplog.at_level("DEBUG"), pytest.raises(SourceUnavailableError) as refusal:
        observe(world, prometheus_credential_reference="env:CLUSTER_SECRET_HOPPER")

    assert refusal.value.reason == "unauthorized"
    assert TOKEN not in str(refusal.value)
    assert TOKEN not in caplog.text


def test_evidence_holds_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_SECRET_HOPPER", TOKEN)

    observation = observe(
        sound_world(), prometheus_credential_reference="env:CLUSTER_SECRET_HOPPER"
    )

    assert TOKEN not in repr(observation)
