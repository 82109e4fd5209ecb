"""The doctor's checks of settings, files and time zones."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest_django import Settings

from config.doctor import site
from config.doctor.findings import CheckResult
from config.settings.base import BACKENDS
from tests.support.builders import make_organization

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
MANIFEST_STORAGE = "whitenoise.storage.CompressedManifestStaticFilesStorage"


@pytest.fixture
def production(settings: Settings) -> Iterator[Settings]:
    """Set what production sets, as far as checks look at it."""
    for name in ("USAGE_SOURCE", "CLUSTER_WATCH", "QUOTA_ENFORCER", "WORKLOAD_EVICTOR"):
        (backend, *_) = BACKENDS[name].values()
        setattr(settings, name, {"BACKEND": backend, "OPTIONS": {}})
    settings.DEBUG = False
    settings.PUBLIC_URL = "https://ledger.example.com"
    settings.SECRET_KEY = "x9" * 5 + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    settings.SECURE_HSTS_PRELOAD = True
    settings.SESSION_COOKIE_SECURE = True
    settings.CSRF_COOKIE_SECURE = True
    return settings


class DiskUsage(NamedTuple):
    """As shutil.disk_usage returns it."""

    total: int
    used: int
    free: int


def settings_found() -> list[tuple[str, str]]:
    return [(one.state.value, one.found) for one in site.check_settings()]


def files() -> dict[str, CheckResult]:
    return {one.state.value: one for one in site.check_files()}


def zones() -> CheckResult:
    (result,) = site.check_time_zones(at=NOW)
    return result


@pytest.mark.usefixtures("production")
def test_settings_of_production_are_well() -> None:
    assert settings_found() == [
        ("ok", "Django's checks for deployments find nothing to change."),
    ]


@pytest.mark.parametrize(
    ("changes", "state", "sentence", "remedy"),
    [
        (
            {"DEBUG": True},
            "problem",
            "DEBUG is on: error pages show settings and variables to everybody.",
            "Use DJANGO_SETTINGS_MODULE=config.settings.production.",
        ),
        (
            {"USAGE_SOURCE": {"BACKEND": "simulator.adapters.x.Y"}},
            "problem",
            "Simulated: USAGE_SOURCE. Nothing of a real cluster is read or written there.",
            "Give each its real value, and the settings of production.",
        ),
        (
            {"FOUR_EYES": False},
            "warning",
            "FOUR_EYES is off: one person alone drafts and finalizes an invoice.",
            "Use FOUR_EYES=true where auditors ask for two.",
        ),
        (
            {"PUBLIC_URL": "http://ledger.example.com"},
            "warning",
            "PUBLIC_URL is not https: links in mails lead to plain HTTP.",
            "Name the https address of the proxy in PUBLIC_URL.",
        ),
        (
            {"SESSION_COOKIE_SECURE": False},
            "warning",
            (
                "Django's checks for deployments find security.W012: SESSION_COOKIE_SECURE is not"
                " set to True."
            ),
            "Run `manage.py check --deploy`, which explains each.",
        ),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_its_remedy(
    production: Settings, changes: dict[str, Any], state: str, sentence: str, remedy: str
) -> None:
    for name, value in changes.items():
        setattr(production, name, value)

    (found,) = site.check_settings()

    assert (found.state, found.found, found.remedy) == (state, sentence, remedy)


@pytest.mark.usefixtures("production")
def test_people_behind_a_proxy_that_share_a_network_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "proxy_problem", lambda: "Requests carry X-Forwarded-For.")

    (found,) = site.check_settings()

    assert (found.state, found.remedy) == (
        "warning",
        "Name the network of the proxy in TRUSTED_PROXIES.",
    )


def test_little_room_for_temporary_files_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "config.doctor.site.shutil.disk_usage", lambda _: DiskUsage(2**33, 2**33, 100 * 2**20)
    )

    found = files()

    assert list(found) == ["warning"]
    assert found["warning"].found.endswith("has 100 MiB free; large exports need more.")
    assert found["warning"].remedy == "Make room, or set TMPDIR to a larger volume."


def test_static_files_that_were_not_collected_are_a_problem(
    settings: Settings, tmp_path: Path
) -> None:
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": MANIFEST_STORAGE}}
    settings.STATIC_ROOT = str(tmp_path)
    missing = files()
    (tmp_path / site.MANIFEST).write_text("{}")
    collected = files()

    assert missing["problem"].found == (
        "staticfiles.json is missing in STATIC_ROOT: every page answers with an error."
    )
    assert missing["problem"].remedy.startswith("Run `manage.py collectstatic --no-input`")
    assert list(collected) == ["ok"]


def test_a_missing_folder_of_secrets_is_a_warning(settings: Settings, tmp_path: Path) -> None:
    settings.CLUSTER_SECRETS_DIR = tmp_path / "nothing"

    found = files()

    assert list(found) == ["warning"]
    assert found["warning"].remedy == "Mount it, as docker-compose.yml does."


@pytest.mark.django_db
def test_zones_of_organizations_are_compared_with_the_database() -> None:
    make_organization("acme", time_zone="Europe/Berlin")
    make_organization("umbrella", time_zone="America/New_York")

    assert zones().state == "ok"
    assert zones().found == (
        "Python and PostgreSQL agree on 2 zones of organizations for two years."
    )


@pytest.mark.django_db
def test_zones_that_one_side_does_not_know_or_has_otherwise_are_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_organization("acme", time_zone="Europe/Berlin")
    monkeypatch.setattr(site, "ZoneInfo", lambda _: UTC)
    different = zones()

    assert (different.state, different.found) == (
        "problem",
        "Python and PostgreSQL differ, or one has no data, for Europe/Berlin.",
    )
    assert different.remedy == "Update the package tzdata on both, and restart them."
