"""Secrets as files: made once, read by the service, and quoted by the database."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from config.env import SECRET_NAMES, Environment, EnvironmentInvalidError
from tests.deploy.files import ROOT, compose


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Give a folder in which `make-secrets` has run."""
    (tmp_path / "deploy" / "secrets").mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "make-secrets", tmp_path / "deploy")
    run_make_secrets(tmp_path)
    return tmp_path / "deploy" / "secrets"


def run_make_secrets(folder: Path) -> None:
    subprocess.run(["sh", str(folder / "deploy" / "make-secrets")], check=True)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file()}


def test_every_secret_of_the_deployment_is_made_and_described(secrets: Path) -> None:
    readme = (ROOT / "deploy" / "secrets" / "README.md").read_text("utf-8")

    assert set(contents(secrets)) == set(compose()["secrets"])
    for name in compose()["secrets"]:
        assert f"| `{name}` |" in readme


def test_only_their_owner_reads_them_and_containers_run_as_that(secrets: Path) -> None:
    token = secrets / "clusters" / "hopper" / "token"
    token.parent.mkdir(mode=0o755)
    token.write_text("sesame")
    token.chmod(0o644)
    run_make_secrets(secrets.parent.parent)

    files = [path for path in secrets.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [secrets, secrets / "clusters", token.parent]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    owner = secrets.stat()
    assert (secrets.parent.parent / ".env").read_text() == (
        f"LEDGER_UID={owner.st_uid}\nLEDGER_GID={owner.st_gid}\n"
    )
    assert owner.st_uid == (os.geteuid() or 10001)
    assert {path.stat().st_uid for path in files} == {owner.st_uid}


def test_making_them_again_changes_none(secrets: Path) -> None:
    before = contents(secrets)

    run_make_secrets(secrets.parent.parent)

    assert contents(secrets) == before


def test_two_deployments_share_no_secret(secrets: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "deploy" / "secrets").mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "make-secrets", other / "deploy")
    run_make_secrets(other)

    mine, theirs = contents(secrets), contents(other / "deploy" / "secrets")
    assert all(mine[name] != theirs[name] for name in mine)


def test_the_service_reads_them_all(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A mail server and a replica are optional: no secret is made for them.
    names = [name for name in SECRET_NAMES if name not in {"EMAIL_URL", "DATABASE_REPLICA_URL"}]
    files = {f"{name}_FILE": str(secrets / name.lower()) for name in names}
    others = {name: value for name, value in os.environ.items() if name not in names}
    # What is read goes into the environment, which the test must leave as it was.
    monkeypatch.setattr(os, "environ", {**others, **files})

    environment = Environment.read()

    for name in names:
        assert str(getattr(environment, name)) == contents(secrets)[name.lower()]


def test_a_secret_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("SECRET_KEY_FILE", "/nonexistent/secret_key")

    with pytest.raises(
        EnvironmentInvalidError, match="SECRET_KEY_FILE: cannot read /nonexistent/secret_key"
    ):
        Environment.read()


def test_valkeys_password_is_the_one_in_the_url(secrets: Path) -> None:
    found = contents(secrets)
    password = found["redis_url"].split(":")[2].split("@")[0]

    assert found["valkey_conf"].splitlines()[0] == f"requirepass {password}"


def test_an_older_configuration_of_valkey_is_renewed_with_its_password(secrets: Path) -> None:
    before = contents(secrets)
    password = before["valkey_conf"].splitlines()[0]
    (secrets / "valkey_conf").write_text(
        f"{password}\nappendonly yes\nmaxmemory-policy noeviction\ndir /data\n"
    )

    run_make_secrets(secrets.parent.parent)

    assert contents(secrets) == before
