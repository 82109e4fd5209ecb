"""Clusters with workers of their own: others leave them alone, and each is woken by itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from pytest_django import Settings

from config.celery import queue_names
from config.doctor.background import check_queues
from metering import tasks
from metering.domain.collection.windows import window_containing
from metering.models import MeteringWindow, WindowRecheck
from metering.selectors.collection.windows import clusters_served
from metering.services.collection.sweeping import CollectionSweep, meter_next
from metering.services.collection.windows import open_due_windows
from metering.services.corrections.rechecks import claim_rechecks
from metering.services.devices.leasing import lease_devices
from tenants.models import Cluster
from tests.conftest import ROOT
from tests.metering.test_tasks import EmptySource
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty_source() -> Iterator[None]:
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}):
        yield
    tasks.process_source.cache_clear()


@pytest.fixture(autouse=True)
def hopper(settings: Settings) -> Cluster:
    """Hopper has workers of its own, ampere has none; three hours of each are due."""
    # Settings of one test are none of the app's, which reads them once.
    assert "metering.hopper" not in queue_names()
    settings.DEDICATED_CLUSTERS = ("hopper",)
    since = window_containing(datetime.now(tz=UTC) - timedelta(hours=3, minutes=16))
    made = [make_cluster(slug, metered_from=since) for slug in ("hopper", "ampere")]
    open_due_windows(at=datetime.now(tz=UTC))
    return made[0]


def sealed() -> set[str]:
    return set(
        MeteringWindow.objects.filter(state="sealed").values_list("cluster__slug", flat=True)
    )


def test_workers_of_all_others_leave_a_dedicated_cluster_even_what_was_decided_on() -> None:
    MeteringWindow.objects.filter(cluster__slug="hopper").update(gap_policy="accept")

    tasks.meter_windows()

    assert sealed() == {"ampere"}


def test_a_clusters_own_workers_meter_it_and_nothing_else() -> None:
    swept = list(tasks.sweep(meter_next, slug="hopper"))

    assert sealed() == {"hopper"}
    assert sum(one.sealed for one in swept) == MeteringWindow.objects.filter(state="sealed").count()


def test_a_tick_wakes_the_workers_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    monkeypatch.setattr(tasks, "wake", woken.append)

    tasks.tick_windows()
    tasks.tick_rechecks()
    tasks.tick_devices()

    kinds = ("metering.meter_windows", "metering.recheck_windows", "metering.collect_devices")
    assert woken == [name for kind in kinds for name in (kind, f"{kind}:hopper")]


@pytest.mark.parametrize(
    ("slug", "kind"),
    [("hopper", "metering.meter_windows:hopper"), ("", "metering.meter_windows")],
)
def test_a_step_of_a_divided_window_wakes_those_who_may_do_the_next(
    monkeypatch: pytest.MonkeyPatch, slug: str, kind: str
) -> None:
    steps = iter([CollectionSweep(steps=1), CollectionSweep(sealed=1), None])
    woken: list[str] = []
    monkeypatch.setattr(tasks, "wake", woken.append)
    monkeypatch.setattr(tasks, "meter_next", lambda **_: next(steps))

    swept = list(tasks.meter(slug=slug))

    assert (woken, len(swept)) == ([kind], 2)


def test_rechecks_and_device_figures_are_leased_of_served_clusters_only(hopper: Cluster) -> None:
    tasks.meter_windows()
    list(tasks.sweep(meter_next, slug="hopper"))
    at = datetime.now(tz=UTC)
    hours = MeteringWindow.objects.filter(state="sealed")
    for window in hours:
        WindowRecheck.objects.create(
            window=window,
            cluster=window.cluster,
            window_start=window.start_at,
            reason="person",
            key="1",
            not_before=at,
            created_at=at,
        )
    served = clusters_served("hopper", dedicated=("hopper",))
    others = clusters_served("", dedicated=("hopper",))

    devices = lease_devices(worker="own", clusters=served, at=at + timedelta(days=1))
    rechecks = claim_rechecks(worker="own", limit=9, clusters=served)

    assert devices is not None
    assert devices.hour.cluster_id == hopper.pk
    assert {one.hour.cluster_id for one in rechecks} == {hopper.pk}
    assert len(rechecks) == hours.filter(cluster=hopper).count()
    assert hopper.pk not in {
        one.hour.cluster_id for one in claim_rechecks(worker="w", limit=9, clusters=others)
    }
    assert clusters_served("", dedicated=()) is None
    assert clusters_served("typo", dedicated=("typo",)) == []


def test_doctor_names_a_dedicated_cluster_that_there_is_not(settings: Settings) -> None:
    (known,) = check_queues()
    settings.DEDICATED_CLUSTERS = ("hopper", "typo")
    (unknown,) = check_queues()

    assert (known.state, unknown.state) == ("ok", "warning")
    assert known.found == "Workers of their own meter hopper."
    assert unknown.found == "DEDICATED_CLUSTERS names clusters that there are not: typo."


def test_a_worker_without_a_choice_serves_the_queues_of_dedicated_clusters_too() -> None:
    code = """
import django
django.setup()
from config.celery import app, queue_names
from tenants.services.wakeups import queue_of
app.loader.import_default_modules()
print(queue_names())
print(sorted(n for n in app.tasks if n.endswith(":hopper")))
print({queue_of(n) for n in app.tasks if n.endswith(":hopper")}, queue_of("metering.meter_windows"))
print(app.conf.broker_url, app.conf.broker_transport_options["master_name"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            **os.environ,
            "DEDICATED_CLUSTERS": "hopper",
            "REDIS_URL": "redis://ledger/0",
            "REDIS_SENTINELS": "127.0.0.1:26379",
        },
        capture_output=True,
        text=True,
        check=True,
    )

    kinds = ("collect_devices", "meter_windows", "recheck_windows")
    assert (done.stdout.splitlines(), done.stderr) == (
        [
            "('celery', 'metering', 'short', 'metering.hopper')",
            str([f"metering.{kind}:hopper" for kind in kinds]),
            "{'metering.hopper'} metering",
            "sentinel://127.0.0.1:26379/0 ledger",
        ],
        "",
    )
