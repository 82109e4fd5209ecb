"""The image: what goes in, who runs it, and that it works with nothing else beside it."""

import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import get_commands
from django.urls import resolve

from config.probe import main as probe
from tests.deploy.files import ROOT, dockerfile, last, service

SOURCES = [
    "manage.py",
    "tenants",
    "metering",
    "quotas",
    "billing",
    "config",
    "docs/reference/openapi.yaml",
]
PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "SECRET_KEY": "s" * 50,
    "API_TOKEN_PEPPER": "p" * 50,
    "DATABASE_URL": "postgresql://gpu_ledger_app:x@127.0.0.1:1/gpu_ledger",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ALLOWED_HOSTS": "ledger.example",
    "PUBLIC_URL": "https://ledger.example",
}


def ignored() -> list[str]:
    return (ROOT / ".dockerignore").read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that holds what the Dockerfile copies, and nothing of the checkout besides."""
    folder = tmp_path_factory.mktemp("image")
    hidden = [line for line in ignored() if not line.startswith("!") and line != "*"]
    for source in SOURCES:
        if (ROOT / source).is_file():
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, folder / source)
            continue
        for path in sorted((ROOT / source).rglob("*")):
            name = str(path.relative_to(ROOT))
            parents = [name, *(str(p) for p in Path(name).parents)]
            if path.is_file() and not any(fnmatch.fnmatch(p, h) for p in parents for h in hidden):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / name)
    return folder


def manage(image: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in PRODUCTION}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=image,
        env={**environment, **PRODUCTION, "STATIC_ROOT": str(image / "static")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_are_installed_from_the_locked_hashes_only() -> None:
    install = next(rest for name, rest in dockerfile() if name == "RUN" and "pip install" in rest)
    locked = (ROOT / "Makefile").read_text("utf-8")

    assert "--require-hashes --only-binary :all: -r requirements/base.txt" in install
    assert "REQUIREMENTS := build base embedded development" in locked


def test_python_is_one_the_project_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    bases = [rest.split()[0] for name, rest in dockerfile() if name == "FROM"]

    assert project["requires-python"] == ">=3.11"
    assert bases == ["python:3.11-slim-bookworm"] * 2


def test_the_image_runs_as_a_numbered_user_without_a_home() -> None:
    assert last("USER") == "10001:10001"
    assert "HOME=/tmp" in last("ENV")
    assert any("--no-create-home" in rest for name, rest in dockerfile() if name == "RUN")


def test_everything_copied_exists_and_passes_the_ignore_file() -> None:
    copied = [rest.split()[0] for name, rest in dockerfile() if name == "COPY"]
    own = [source for source in copied if not source.startswith("--from")]

    assert own == ["requirements/base.txt", *SOURCES]
    assert ignored()[0] == "*"
    assert {line[1:] for line in ignored() if line.startswith("!")} == set(own)
    assert all((ROOT / source).exists() for source in own)


def test_the_image_starts_the_web_server_and_asks_its_own_health() -> None:
    command = json.loads(last("CMD").split("CMD ")[-1])
    check = json.loads(last("HEALTHCHECK").split("CMD ")[-1])

    assert json.loads(last("CMD")) == service("web")["command"] == command
    assert command[2] in get_commands()
    assert check[:3] == ["python", "-m", "config.probe"]
    assert resolve(urlsplit(check[3]).path).url_name == "healthz"


def test_the_image_needs_neither_embedded_servers_nor_the_demo(image: Path) -> None:
    done = manage(image, "check", "--deploy", "--fail-level", "ERROR")

    assert done.returncode == 0, done.stderr
    assert not (image / "config" / "embedded").exists()
    assert not (image / "config" / "demo").exists()


def test_static_files_are_collected_with_names_by_content(image: Path) -> None:
    done = manage(image, "collectstatic", "--no-input", "--verbosity", "0")

    assert done.returncode == 0, done.stderr
    manifest = json.loads((image / "static" / "staticfiles.json").read_text())
    assert "admin/css/base.css" in manifest["paths"]


@pytest.mark.parametrize("missing", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL", "API_TOKEN_PEPPER"])
def test_a_missing_variable_stops_the_start_with_its_name(image: Path, missing: str) -> None:
    environment = {k: v for k, v in {**os.environ, **PRODUCTION}.items() if k != missing}

    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=image,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"{missing}: Field required" in done.stderr


def test_the_probe_tells_a_dead_service_from_a_wrong_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert probe(["http://127.0.0.1:1/healthz"]) == 1
    assert probe([]) == 2
    assert "usage" in capsys.readouterr().err
