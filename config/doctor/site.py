"""Checks of settings, files and time zones of the installation."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.core.checks import run_checks
from django.core.checks.messages import WARNING
from django.db import connection

from config.doctor.findings import CheckResult, counted, listed, ok, problem, warning
from config.monitoring.health import proxy_problem
from tenants.models import Organization

PAGE: Final = "docs/how-to/install.md"
VARIABLES_PAGE: Final = "docs/reference/environment.md"
FREE_BYTES_MIN: Final = 1024**3
"""A PDF takes kilobytes; a large export is staged in a temporary file of hundreds of megabytes."""
MANIFEST: Final = "staticfiles.json"
MONTHS_COMPARED: Final = 24
"""From now on: a billing month begins at a local midnight of its payer."""
BACKENDS: Final = (
    "USAGE_SOURCE",
    "CLUSTER_WATCH",
    "QUOTA_ENFORCER",
    "WORKLOAD_EVICTOR",
)


def check_settings() -> Iterator[CheckResult]:
    """Yield what Django's checks for deployments, and ours, find in the settings."""
    found = list(_settings_results())
    yield from found
    if not found:
        yield ok("settings", "Django's checks for deployments find nothing to change.")


def _settings_results() -> Iterator[CheckResult]:
    if settings.DEBUG:
        yield problem(
            "settings",
            "DEBUG is on: error pages show settings and variables to everybody.",
            "Use DJANGO_SETTINGS_MODULE=config.settings.production.",
            PAGE,
        )
    simulated = [name for name in BACKENDS if _is_simulated(getattr(settings, name))]
    if simulated:
        yield problem(
            "settings",
            f"Simulated: {listed(simulated)}. Nothing of a real cluster is read or written there.",
            "Give each its real value, and the settings of production.",
            VARIABLES_PAGE,
        )
    if not settings.FOUR_EYES:
        yield warning(
            "settings",
            "FOUR_EYES is off: one person alone drafts and finalizes an invoice.",
            "Use FOUR_EYES=true where auditors ask for two.",
            VARIABLES_PAGE,
        )
    if urlsplit(settings.PUBLIC_URL).scheme != "https":
        yield warning(
            "settings",
            "PUBLIC_URL is not https: links in mails lead to plain HTTP.",
            "Name the https address of the proxy in PUBLIC_URL.",
            PAGE,
        )
    if found := proxy_problem():
        yield warning("settings", found, "Name the network of the proxy in TRUSTED_PROXIES.", PAGE)
    messages = run_checks(tags=["security"], include_deployment_checks=True)
    serious = [one for one in messages if one.level >= WARNING and not one.is_silenced()]
    if serious and not settings.DEBUG:
        ids = listed(str(one.id) for one in serious)
        yield warning(
            "settings",
            f"Django's checks for deployments find {ids}: {_first_sentence(serious[0].msg)}",
            "Run `manage.py check --deploy`, which explains each.",
            PAGE,
        )


def _is_simulated(setting: Mapping[str, Any]) -> bool:
    return str(setting["BACKEND"]).startswith("simulator.")


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def check_files() -> Iterator[CheckResult]:
    """Yield whether temporary files have room, and whether static files and secrets are there."""
    folder = Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_MIN:
        yield warning(
            "storage",
            f"{folder} has {free / 2**20:,.0f} MiB free; large exports need more.",
            "Make room, or set TMPDIR to a larger volume.",
            PAGE,
        )
    backend = settings.STORAGES.get("staticfiles", {}).get("BACKEND", "")
    if "Manifest" in backend and not Path(f"{settings.STATIC_ROOT}/{MANIFEST}").is_file():
        yield problem(
            "storage",
            f"{MANIFEST} is missing in STATIC_ROOT: every page answers with an error.",
            "Run `manage.py collectstatic --no-input`; the image has done so.",
            PAGE,
        )
    secrets = Path(settings.CLUSTER_SECRETS_DIR)
    if not secrets.is_dir():
        yield warning(
            "storage",
            f"CLUSTER_SECRETS_DIR, {secrets}, is no directory: no credential of a cluster is read.",
            "Mount it, as docker-compose.yml does.",
            "docs/how-to/connect-a-cluster.md",
        )
    if free >= FREE_BYTES_MIN and secrets.is_dir():
        yield ok("storage", f"{folder} has {free / 2**30:,.1f} GiB free; {secrets} is there.")


def check_time_zones(*, at: datetime) -> Iterator[CheckResult]:
    """Yield whether Python and PostgreSQL agree when the months of each organization begin."""
    zones = sorted({str(zone) for zone in Organization.objects.values_list("time_zone", flat=True)})
    months = [at + timedelta(days=30 * number) for number in range(MONTHS_COMPARED)]
    different = [zone for zone in zones if not _is_agreed(zone, months)]
    if different:
        yield problem(
            "time-zones",
            f"Python and PostgreSQL differ, or one has no data, for {listed(different)}.",
            "Update the package tzdata on both, and restart them.",
            PAGE,
        )
        return
    yield ok(
        "time-zones",
        f"Python and PostgreSQL agree on {counted(len(zones), 'zone')} of organizations for two"
        " years.",
    )


def _is_agreed(zone: str, moments: list[datetime]) -> bool:
    """Whether both have the same local times."""
    try:
        ours = [moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for moment in moments]
    except (ZoneInfoNotFoundError, ValueError):
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(%s))", [zone]
        )
        (is_known,) = cursor.fetchone()
        if not is_known:
            return False
        cursor.execute(
            "SELECT array_agg(moment AT TIME ZONE %s ORDER BY position)"
            " FROM unnest(%s::timestamptz[]) WITH ORDINALITY AS given(moment, position)",
            [zone, moments],
        )
        (theirs,) = cursor.fetchone()
    return bool(theirs == ours)
