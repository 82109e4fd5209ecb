"""Real workers and beats over a real Valkey and PostgreSQL: loaded, starved, and fed rubbish."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import transaction

from config.celery import QUEUES, app
from embedded.postgres import APP, OWNER, EmbeddedPostgres
from embedded.programs import wait_until
from embedded.stack import Stack
from metering.domain.collection.windows import window_containing
from metering.models import MeteringWindow, UsageRecord
from metering.services.collection.windows import open_due_windows
from quotas.models import EnforcementTarget, QuotaCounter
from quotas.services.limits.changes import open_counter
from simulator.cluster.demo_tenancy import namespaces_of
from tenants.models import Cluster, SweepCrash
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.quotas.builders import hold, make_limit, write_kubeconfig
from tests.support.references import reference_to

pytestmark = [
    pytest.mark.soak,
    pytest.mark.seconds(60),
    pytest.mark.usefixtures("committed_db"),
]
WORKING = "tests.support.embedded.working"
CLUSTER = "hopper"
PATIENCE_SECONDS = 300
STARVED_SHARE = 0.1
PULSE_SECONDS = 0.5
SILENT_SECONDS = 60
"""Longer than a batch of namespaces in a silent cluster, which is 40 s."""


class Site:
    """A broker, and as many workers and beats as a test starts, over the test's database."""

    def __init__(self, stack: Stack) -> None:
        """Start the broker."""
        self.stack = stack
        stack.start_datastores()
        self.client = redis.Redis.from_url(stack.environment["REDIS_URL"])

    def celery(self, name: str, *arguments: str, **environment: str) -> None:
        """Start one part of Celery under a name of its own."""
        self.stack.environment |= environment
        quiet = ("--without-gossip", "--without-mingle", "--loglevel", "INFO")
        own = ("-n", f"{name}@%h", *quiet) if arguments[0] == "worker" else ()
        command = ("-W", "ignore", "-m", "celery", "-A", WORKING, *arguments, *own)
        self.stack.start(self.stack.python_program(name, *command))

    def worker(self, name: str = "worker", *, processes: int = 1, **environment: str) -> None:
        """Start a worker that meters."""
        self.celery(name, "worker", "-Q", "celery,metering", "-c", str(processes), **environment)

    def short_worker(self, name: str = "short-worker", **environment: str) -> None:
        """Start a worker for the short kinds."""
        self.celery(name, "worker", "-Q", "short", "-c", "4", **environment)

    def beat(self, name: str = "beat") -> None:
        """Start a beat."""
        self.celery(name, "beat", "-s", str(self.stack.state / name), "--pidfile=")

    def tick_once(self) -> None:
        """Open the due hours and wake the workers that meter, from a process that then ends."""
        script = (
            "import django; django.setup(); import config.celery\n"
            "from metering.tasks import tick_windows; tick_windows()\n"
        )
        program = self.stack.python_program("tick", "-W", "ignore", "-c", script)
        subprocess.run(program.command, env=program.environment, cwd=program.cwd, check=True)

    def waiting(self) -> int:
        """Return how many messages wait in all queues."""
        return sum(self.client.llen(queue) for queue in QUEUES)

    def log(self, name: str) -> str:
        """Return what a part has logged."""
        return self.stack.log(name).read_text(encoding="utf-8")


@pytest.fixture
def site(state: Path, postgres: EmbeddedPostgres, committed_db: str) -> Iterator[Site]:
    """Give a site on the test's own database, with simulated usage of the last days."""
    options = {"month_start": window_containing(datetime.now(UTC) - timedelta(days=4)).isoformat()}
    outside = {
        **os.environ,
        "DATABASE_URL": postgres.url(role=APP, database=committed_db),
        "DATABASE_OWNER_URL": postgres.url(role=OWNER, database=committed_db),
        "USAGE_SOURCE": "simulated",
        "USAGE_SOURCE_OPTIONS": json.dumps(options),
    }
    with Stack(state, outside=outside) as stack:
        yield Site(stack)


def due_hours(hours: int, *, slug: str = CLUSTER) -> Cluster:
    """Register a cluster of which so many hours are due."""
    now = datetime.now(UTC)
    begin = window_containing(now - timedelta(hours=hours, minutes=16))
    return make_cluster(slug, metered_from=begin, scrape_interval_seconds=120)


def sealed() -> int:
    return MeteringWindow.objects.filter(state="sealed").count()


def is_metered() -> bool:
    """Whether hours were opened and none is left."""
    windows = MeteringWindow.objects.all()
    return windows.exists() and not windows.exclude(state="sealed").exists()


def until(holds: Callable[..., bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something."""
    assert wait_until(holds, timeout_seconds=seconds)


def test_what_waited_for_three_minutes_is_metered_and_not_thrown_away(site: Site) -> None:
    due_hours(6)
    site.tick_once()

    site.worker(CLOCK_AHEAD_SECONDS="200")

    until(is_metered)
    until(lambda: site.waiting() == 0)


def test_a_starved_worker_meters_at_its_rate_and_its_queue_does_not_grow(site: Site) -> None:
    due_hours(4)
    site.worker(WINDOW_SECONDS="0.2")
    for name in ("beat-1", "beat-2"):
        site.beat(name)
    until(lambda: "ready." in site.log("worker"))
    kinds = len(app.conf.beat_schedule) + 2
    group = site.stack.supervisor.pids()["worker"]
    waited = [0]
    began = time.monotonic()
    while not is_metered():
        assert time.monotonic() - began < PATIENCE_SECONDS
        for number, share in ((signal.SIGCONT, STARVED_SHARE), (signal.SIGSTOP, 1 - STARVED_SHARE)):
            os.killpg(group, number)
            time.sleep(PULSE_SECONDS * share)
        waited.append(site.waiting())

    os.killpg(group, signal.SIGCONT)
    assert max(waited) <= kinds
    assert set(MeteringWindow.objects.values_list("fence", flat=True)) == {1}


def test_live_use_runs_while_metering_is_saturated(site: Site) -> None:
    cast = make_cast()
    cluster = due_hours(72)
    bind(cluster, "llm", cast.llm)
    with transaction.atomic():
        open_counter(limit=make_limit(cast.acme), at=datetime.now(UTC))
    site.worker(processes=2, WINDOW_SECONDS="8")
    site.short_worker()
    site.beat()
    collecting = MeteringWindow.objects.filter(state="collecting").order_by()
    until(lambda: collecting.values("lease_owner").distinct().count() == 2)

    for number in range(1, 4):
        hold(cluster, "llm")
        until(lambda units=number: QuotaCounter.objects.get().held_units == units, seconds=15)

    assert MeteringWindow.objects.filter(state="open").exists(), "Metering is no longer saturated."


def test_live_use_runs_beside_a_cluster_that_accepts_connections_and_never_answers(
    site: Site, state: Path
) -> None:
    cast = make_cast()
    cluster = make_cluster(CLUSTER)
    bind(cluster, "llm", cast.llm)
    with transaction.atomic():
        open_counter(limit=make_limit(cast.acme), at=datetime.now(UTC))
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as silent:
        path = write_kubeconfig(state, f"http://127.0.0.1:{silent.getsockname()[1]}")
        away = make_cluster("silent", credential_reference=reference_to(path))
        for number in range(300):
            bind(away, f"team-{number}", cast.llm)
        secrets = str(settings.CLUSTER_SECRETS_DIR)
        site.short_worker(QUOTA_ENFORCER="kubernetes", CLUSTER_SECRETS_DIR=secrets)
        site.beat()
        until(lambda: EnforcementTarget.objects.filter(attempt__gt=0).exists())

        ends_at = time.monotonic() + SILENT_SECONDS
        number = 0
        while time.monotonic() < ends_at:
            hold(cluster, "llm")
            number += 1
            until(lambda units=number: QuotaCounter.objects.get().held_units == units, seconds=15)

        assert 50 <= EnforcementTarget.objects.filter(attempt__gt=0).count() <= 150


def test_two_sets_of_workers_and_beats_do_everything_once(site: Site) -> None:
    cast = make_cast()
    for slug in (CLUSTER, "ampere"):
        cluster = due_hours(6, slug=slug)
        for namespace in namespaces_of(slug):
            bind(cluster, namespace.name, cast.llm)
    for number in (1, 2):
        site.worker(f"worker-{number}", processes=2)
        site.short_worker(f"short-worker-{number}")
        site.beat(f"beat-{number}")
    waited = [0]

    def is_over() -> bool:
        waited.append(site.waiting())
        return is_metered()

    until(is_over)

    windows = MeteringWindow.objects.all()
    assert set(windows.values_list("fence", flat=True)) == {1}
    assert max(waited) <= len(app.conf.beat_schedule) + 4
    assert UsageRecord.objects.count() > windows.count()
    assert UsageRecord.objects.count() == sum(windows.values_list("record_count", flat=True))
    assert list(SweepCrash.objects.values_list("event", "last_key", "last_error")) == []
    assert open_due_windows(at=datetime.now(UTC)) == 0


def test_a_dedicated_cluster_is_metered_by_its_own_worker_and_by_no_other(site: Site) -> None:
    for slug in (CLUSTER, "ampere"):
        due_hours(3, slug=slug)
    theirs = MeteringWindow.objects.filter(cluster__slug=CLUSTER)
    others = MeteringWindow.objects.exclude(cluster__slug=CLUSTER)
    site.worker(DEDICATED_CLUSTERS=CLUSTER)
    site.tick_once()
    until(lambda: others.exists() and not others.exclude(state="sealed").exists())
    until(lambda: site.waiting() == 0)

    assert set(theirs.values_list("state", "fence")) == {("open", 0)}
    assert site.client.llen(f"metering.{CLUSTER}") == 1

    Cluster.objects.update(metered_from=window_containing(datetime.now(UTC) - timedelta(hours=12)))
    site.celery("own-worker", "worker", "-Q", f"metering.{CLUSTER}", "-c", "1")
    until(lambda: "ready." in site.log("own-worker"))
    site.tick_once()
    until(lambda: is_metered() and theirs.count() == others.count() > 10)

    def count_sealed(name: str) -> int:
        return site.log(name).count("metering.window.sealed")

    until(lambda: count_sealed("own-worker") == theirs.count())
    assert count_sealed("worker") == others.count()
    assert set(MeteringWindow.objects.values_list("fence", flat=True)) == {1}


RUBBISH = (
    b"no JSON",
    b"\xff\xfe",
    b"[" * 100_000,
    b"{}",
    b"[1, 2]",
    b'"text"',
    b"null",
    b'{"properties": {}}',
    b'{"properties": {"delivery_tag": "1"}, "body": "e30="}',
    b'{"properties": {"delivery_tag": [1], "delivery_info": {"exchange": "", "routing_key": "x"}}}',
)


def envelope(number: int, **changed: object) -> bytes:
    """Return a message as Celery writes it, with some parts changed."""
    properties = {
        "delivery_tag": f"tag-{number}",
        "delivery_info": {"exchange": "", "routing_key": "metering"},
        "body_encoding": "base64",
    }
    message = {
        "body": "W1tdLCB7fSwge31d",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"task": "metering.meter_windows", "id": f"id-{number}", "lang": "py"},
        "properties": properties,
    }
    return json.dumps(message | changed).encode()


def unreadable() -> list[bytes]:
    """Return fifty messages of which each would end a worker, or fail."""
    headers = {"task": "metering.meter_windows", "id": "1"}
    kinds = [
        *RUBBISH,
        envelope(1, **{"content-type": "application/x-python-serialize"}),
        envelope(2, body="e30"),
        envelope(3, body="bm90IEpTT04="),
        envelope(4, headers=[]),
        envelope(5, headers={"task": "metering.collect_window", "id": "5", "lang": "py"}),
        envelope(6, headers={"task": "nothing"}),
        envelope(7, headers={**headers, "eta": "never"}),
        envelope(8, headers={**headers, "timelimit": "long"}),
        envelope(9, body="W1sxLCAyLCAzXSwge30sIHt9XQ=="),
        envelope(10, headers={**headers, "compression": "none of ours"}),
    ]
    return [kinds[number % len(kinds)] for number in range(50)]


def test_fifty_unreadable_messages_end_no_worker_and_are_counted(site: Site) -> None:
    due_hours(4)
    site.worker()
    until(lambda: "ready." in site.log("worker"))
    before = site.stack.supervisor.pids()["worker"]

    site.client.lpush("metering", *unreadable())
    site.tick_once()

    until(is_metered)
    until(lambda: crashes_by_event().get("broker.message.dropped", 0) >= 45)
    assert site.stack.supervisor.pids()["worker"] == before
    until(lambda: site.waiting() == 0)
    until(lambda: site.client.hlen("unacked") == 0)
    counted = crashes_by_event()
    assert counted.pop("broker.message.dropped") + sum(counted.values()) == 50
    assert set(counted) <= {"metering.meter_windows.failed"}
