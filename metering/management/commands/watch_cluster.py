"""`manage.py watch_cluster`: keep the allocation ledger from the API of watched clusters.

One process watches any number of clusters, each in threads of its own, and any number of processes
may run: one leads each cluster, and another takes over when it is gone. An app above may replace
the command by one that keeps more of the clusters.
"""

import os
import signal
import socket
import threading
import uuid
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Generic, TypeVar

import structlog
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections
from django.utils import timezone

from metering.adapters import cluster_watch
from metering.protocols.watch import ClusterWatchSource, WatchExpiredError
from metering.selectors.allocations.watch import WatchedCluster, watched_clusters
from metering.services.allocations.heartbeats import ClockAheadError, WatchPace
from metering.services.allocations.keeping import keep_watching, watch_cluster
from metering.services.allocations.leading import Watcher
from tenants.domain.actors import system_actor
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.refusals import ClockOffError
from tenants.services.clock import require_clock

Watched = TypeVar("Watched")
logger = structlog.get_logger(__name__)

ACTOR: Final = system_actor("manage.watch_cluster")
REFRESH_SECONDS: Final = 30
"""How soon a cluster that is newly watched, changed or closed is noticed."""
STOP_SECONDS: Final = 20
"""What has come is written within this; then the process ends anyway, and nothing is lost."""


class Command(BaseCommand):
    """Watch clusters until stopped."""

    help = "Keep the allocation ledger from the Kubernetes API of watched clusters."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the clusters."""
        parser.add_argument("slugs", nargs="*", help="Which clusters.")
        parser.add_argument("--all", action="store_true", help="Every cluster that is watched.")
        parser.add_argument("--once", action="store_true", help="Read up to now, and end.")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Watch."""
        slugs = frozenset(options["slugs"])
        if bool(slugs) == options["all"]:
            raise CommandError("Name clusters, or give --all.")
        clusters = watched_clusters(slugs)
        missing = slugs - {cluster.target.slug for cluster in clusters}
        if missing:
            raise CommandError(f"Not watched: {', '.join(sorted(missing))}.")
        if options["once"]:
            self._read_once(clusters)
        else:
            _watch_until_stopped(slugs, crews=self.crews())

    def crews(self) -> "Sequence[Crew[Any]]":
        """Return what this process keeps, each with a thread for every cluster."""
        return [WatchCrew(cluster_watch(settings.CLUSTER_WATCH))]

    def _read_once(self, clusters: Collection[WatchedCluster]) -> None:
        try:
            require_clock(timezone.now)
        except ClockOffError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        watcher, failed = make_watcher(cluster_watch(settings.CLUSTER_WATCH)), []
        for cluster in clusters:
            slug = cluster.target.slug
            try:
                is_led = watch_cluster(
                    cluster_id=cluster.cluster_id,
                    target=cluster.target,
                    watcher=watcher,
                    is_once=True,
                )
            except (SourceUnavailableError, WatchExpiredError, ClockAheadError) as error:
                failed.append(f"{slug}: {error}")
            else:
                self.stdout.write(f"{slug}: {'read' if is_led else 'led by another process'}")
        if failed:
            raise CommandError("\n".join(failed))


@dataclass
class _Post(Generic[Watched]):
    """One cluster's thread, and the event that stops it."""

    cluster: Watched
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


class Crew(ABC, Generic[Watched]):
    """The threads of this process that do one kind of work, one for each cluster."""

    def __init__(self) -> None:
        """Begin without any thread."""
        self._posts: dict[Watched, _Post[Watched]] = {}

    @abstractmethod
    def find(self, slugs: Collection[str]) -> Collection[Watched]:
        """Return the clusters to work on now, of those named, or all."""

    @abstractmethod
    def name_of(self, cluster: Watched) -> str:
        """Return the name of a cluster's thread."""

    @abstractmethod
    def keep(self, cluster: Watched, stop: threading.Event) -> None:
        """Work on a cluster until stopped; called in its thread."""

    def match(self, clusters: Collection[Watched]) -> None:
        """Start what is new, and stop what is gone; what was changed is both."""
        for cluster in set(self._posts) - set(clusters):
            logger.info("metering.watch.exited", thread=self.name_of(cluster))
            self._posts.pop(cluster).stop.set()
        for cluster in clusters:
            post = self._posts.get(cluster)
            if post is None or post.thread is None or not post.thread.is_alive():
                self._posts[cluster] = self._start(cluster)

    def stop(self) -> None:
        """Stop everything, and wait until what has come is written."""
        for post in self._posts.values():
            post.stop.set()
        for post in self._posts.values():
            if post.thread is not None:
                post.thread.join(STOP_SECONDS)

    def _start(self, cluster: Watched) -> _Post[Watched]:
        logger.info("metering.watch.started", thread=self.name_of(cluster))
        post = _Post(cluster)
        post.thread = threading.Thread(
            target=self._keep, args=(post,), name=self.name_of(cluster), daemon=True
        )
        post.thread.start()
        return post

    def _keep(self, post: _Post[Watched]) -> None:
        try:
            self.keep(post.cluster, post.stop)
        finally:
            connections.close_all()


class WatchCrew(Crew[WatchedCluster]):
    """The threads that keep the allocation ledger."""

    def __init__(self, watch: ClusterWatchSource) -> None:
        """Begin without any thread."""
        super().__init__()
        self._watch = watch

    def find(self, slugs: Collection[str]) -> Collection[WatchedCluster]:
        """Return the clusters that are watched."""
        return clusters_to_watch(slugs)

    def name_of(self, cluster: WatchedCluster) -> str:
        """Return the name of a cluster's thread."""
        return f"watch-{cluster.target.slug}"

    def keep(self, cluster: WatchedCluster, stop: threading.Event) -> None:
        """Watch a cluster, or wait to lead its watch."""
        keep_watching(
            cluster_id=cluster.cluster_id,
            target=cluster.target,
            watcher=make_watcher(self._watch, stop=stop),
        )


def make_watcher(watch: ClusterWatchSource, *, stop: threading.Event | None = None) -> Watcher:
    """Return this process as a watcher, at the pace the settings name."""
    return Watcher(
        # A process that comes back with the same number is another one, so the name is drawn.
        name=f"{socket.gethostname()[:40]}/{os.getpid()}/{uuid.uuid4().hex[:8]}",
        watch=watch,
        actor=ACTOR,
        clock=timezone.now,
        pace=WatchPace(
            heartbeat_seconds=settings.WATCH_HEARTBEAT_SECONDS,
            lease_seconds=settings.WATCH_LEASE_SECONDS,
            relist_seconds=settings.WATCH_RELIST_SECONDS,
        ),
        stop=stop or threading.Event(),
    )


def _watch_until_stopped(slugs: Collection[str], *, crews: Sequence[Crew[Any]]) -> None:
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        while True:
            # A database that is away is waited for; those who watch wait for it too.
            with suppress(DatabaseError):
                for crew in crews:
                    crew.match(crew.find(slugs))
            connections.close_all()
            if stop.wait(REFRESH_SECONDS):
                break
    finally:
        for crew in crews:
            crew.stop()


def clusters_to_watch(slugs: Collection[str]) -> Collection[WatchedCluster]:
    """Return the clusters that this process watches now: none while its clock is far off."""
    try:
        require_clock(timezone.now)
    except ClockOffError:
        return ()
    return watched_clusters(slugs)
