"""`manage.py watch_cluster`: which clusters, once or until stopped."""

import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.test import override_settings

from metering.adapters import cluster_watch
from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.management.commands import watch_cluster as command
from metering.models import ClusterWatch, WatchCursor
from metering.protocols.watch import WatchTarget
from metering.selectors.allocations.watch import WatchedCluster, heartbeat_ages, watched_clusters
from metering.services.allocations.leading import Watcher
from metering.services.allocations.leases import take_lease
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry
from tests.support.builders import AT, make_cluster

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> list[str]:
    out = StringIO()
    # By its class: quotas replaces the name.
    call_command(command.Command(), *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_once_reads_every_watched_cluster_and_ends() -> None:
    make_cluster("hopper", is_watched=True)
    make_cluster("ampere", is_watched=True)
    make_cluster("hall-3")

    said = run("--all", "--once")

    assert said == ["ampere: read", "hopper: read"]
    assert WatchCursor.objects.count() == 4


def test_once_reads_only_the_clusters_named() -> None:
    make_cluster("hopper", is_watched=True)
    make_cluster("ampere", is_watched=True)

    assert run("hopper", "--once") == ["hopper: read"]


@override_settings(CLUSTER_WATCH={"BACKEND": "metering.adapters.kubernetes.KubernetesClusterWatch"})
def test_a_reference_that_leads_outside_is_audited_when_it_is_read_once() -> None:
    cluster = make_cluster(
        "hopper", is_watched=True, credential_reference="kubeconfig:../../etc/passwd"
    )

    with pytest.raises(CommandError, match="The credentials of cluster hopper are not used"):
        run("hopper", "--once")

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts == {"code": "credentials_forbidden", "cluster": "hopper"}
    assert (entry.object_id, entry.actor_label) == (str(cluster.pk), "manage.watch_cluster")


def test_a_cluster_led_by_another_process_is_left_to_it() -> None:
    hopper = make_cluster("hopper", is_watched=True)
    take_lease(
        cluster_id=hopper.pk,
        holder="other",
        lease_seconds=60,
        actor=system_actor("tests"),
        at=datetime.now(UTC),
    )

    assert run("hopper", "--once") == ["hopper: led by another process"]
    assert not WatchCursor.objects.exists()


def test_one_cluster_that_cannot_be_read_keeps_no_other_from_it() -> None:
    make_cluster("astray", is_watched=True)
    make_cluster("hopper", is_watched=True)
    out = StringIO()

    with pytest.raises(CommandError, match=r"^astray: The simulated scenario has no cluster"):
        call_command(command.Command(), "--all", "--once", stdout=out)

    assert out.getvalue() == "hopper: read\n"


@pytest.mark.parametrize("arguments", [(), ("hopper", "--all")])
def test_it_wants_names_or_all_and_not_both(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="Name clusters, or give --all"):
        run(*arguments)


@pytest.mark.parametrize("state", ["active", "closed"])
def test_a_cluster_that_is_not_watched_is_named(state: str) -> None:
    make_cluster("hopper", state=state, is_watched=state == "closed")

    with pytest.raises(CommandError, match=r"Not watched: hopper, typo\."):
        run("hopper", "typo", "--once")

    assert not ClusterWatch.objects.exists()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, threading.Event]]]:
    """Let threads begin without a database: they belong to another connection than the test's."""
    begun: list[tuple[str, threading.Event]] = []

    def wait(cluster_id: UUID, target: WatchTarget, watcher: Watcher) -> None:
        del cluster_id
        begun.append((target.slug, watcher.stop))
        watcher.stop.wait(30)

    monkeypatch.setattr(command, "keep_watching", wait)
    yield begun
    for _, stop in begun:
        stop.set()


def wait_for(quiet: list[tuple[str, threading.Event]], count: int) -> None:
    """Wait until so many threads have begun."""
    give_up_at = time.monotonic() + 10
    while len(quiet) < count:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


def seen(number: int, slug: str, url: str = "") -> WatchedCluster:
    return WatchedCluster(UUID(int=number), WatchTarget(slug, kubernetes_url=url))


def test_the_crew_follows_what_is_to_be_watched(
    quiet: list[tuple[str, threading.Event]],
) -> None:
    crew = command.WatchCrew(SimulatedClusterWatch())

    crew.match([seen(1, "a"), seen(2, "b")])
    crew.match([seen(1, "a"), seen(2, "b")])
    crew.match([seen(1, "a", "https://10.0.0.1"), seen(3, "c")])

    wait_for(quiet, 4)
    assert sorted(slug for slug, _ in quiet) == ["a", "a", "b", "c"]
    stopped = [slug for slug, stop in quiet if stop.is_set()]
    assert sorted(stopped) == ["a", "b"]
    crew.stop()
    assert all(stop.is_set() for _, stop in quiet)


def test_a_thread_that_died_is_replaced(quiet: list[tuple[str, threading.Event]]) -> None:
    crew = command.WatchCrew(SimulatedClusterWatch())
    crew.match([seen(1, "a")])
    wait_for(quiet, 1)
    quiet[0][1].set()
    for thread in threading.enumerate():
        if thread.name == "watch-a":
            thread.join(5)

    crew.match([seen(1, "a")])
    wait_for(quiet, 2)
    crew.stop()

    assert [slug for slug, _ in quiet] == ["a", "a"]


def test_a_signal_ends_it_and_every_thread(
    quiet: list[tuple[str, threading.Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cluster("hopper", is_watched=True)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(connections, "close_all", lambda: signal.raise_signal(15))

    run("--all")

    wait_for(quiet, 1)
    for number, handler in before.items():
        signal.signal(number, handler)
    assert [(slug, stop.is_set()) for slug, stop in quiet] == [("hopper", True)]


def test_every_watcher_has_a_name_of_its_own_that_fits() -> None:
    names = {command.make_watcher(SimulatedClusterWatch()).name for _ in range(5)}

    assert len(names) == 5
    assert max(map(len, names)) <= 64


@override_settings(WATCH_HEARTBEAT_SECONDS=7, WATCH_LEASE_SECONDS=45, WATCH_RELIST_SECONDS=1200)
def test_the_pace_is_that_of_the_settings() -> None:
    pace = command.make_watcher(SimulatedClusterWatch()).pace

    assert (pace.heartbeat_seconds, pace.lease_seconds, pace.relist_seconds) == (7, 45, 1200)


def test_the_watch_is_the_one_the_settings_name() -> None:
    backend = "metering.adapters.kubernetes.KubernetesClusterWatch"

    assert isinstance(
        cluster_watch({"BACKEND": backend, "OPTIONS": {"stall_seconds": 120}}),
        KubernetesClusterWatch,
    )
    for options in ({"speed": "high"}, {"resources": "("}):
        with pytest.raises(ImproperlyConfigured, match=r"^CLUSTER_WATCH_OPTIONS: "):
            cluster_watch({"BACKEND": backend, "OPTIONS": options})


def test_a_target_carries_what_an_api_is_reached_with() -> None:
    hopper = make_cluster(
        is_watched=True,
        credential_reference="env:CLUSTER_SECRET_A",
        user_label="billing.example.com/user",
    )

    (only,) = watched_clusters()

    assert only == WatchedCluster(
        hopper.pk,
        WatchTarget(
            "hopper",
            "https://127.0.0.1:9/",
            "env:CLUSTER_SECRET_A",
            user_label="billing.example.com/user",
        ),
    )


def test_the_age_of_a_heartbeat_counts_from_the_clusters_start_when_there_was_none() -> None:
    make_cluster("ampere", is_watched=True)
    make_cluster("hall-3")
    hopper = make_cluster("hopper", is_watched=True)
    ClusterWatch.objects.create(cluster=hopper, healthy_at=AT + timedelta(minutes=50))

    ages = heartbeat_ages(at=AT + timedelta(hours=1))

    assert ages == {"ampere": 3600, "hopper": 600}
