"""Following: one thread of a process finds clusters with unseen pods, others look after them.

Only the thread that finds them needs a connection all the time: that of a cluster sleeps without
one while there is nothing for this process to do there.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from django.db import Error, connections
from django.utils import timezone

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import PodProofs
from quotas.protocols import EnforcementEndpoint
from quotas.selectors.admission.unseen import clusters_to_look_at, provable_clusters
from quotas.webhook.guard import is_busy
from quotas.webhook.selectors import SelectorCheck
from quotas.webhook.unseen import ACTOR, UnseenPods, own_name
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

logger = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 0.25
CLUSTERS_SECONDS: Final = 30
"""How soon a new cluster is noticed, and how often each is looked at in any case."""
IDLE_SECONDS: Final = 10
"""How long a cluster's thread keeps its connection while there is nothing to do."""
PAUSE_SECONDS: Final = 5
"""How long a cluster that cannot be read is left alone."""


@dataclass(frozen=True)
class Follower:
    """The thread of one cluster.

    Attributes:
        wake: Set when there is something to look at.
        stop: Set, before `wake`, when the thread is to end.
    """

    cluster_id: UUID
    wake: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """Have the thread end."""
        self.stop.set()
        self.wake.set()


def begin() -> None:
    """Start the thread of this process that follows unseen pods; it ends with the process."""
    threading.Thread(target=_follow_clusters, name="unseen-pods", daemon=True).start()


def _follow_clusters() -> None:
    """Keep one thread for each cluster: one that does not answer delays no other."""
    followers: dict[EnforcementEndpoint, Follower] = {}
    match_at = time.monotonic()
    while True:
        try:
            is_due = time.monotonic() >= match_at
            if is_due:
                match_followers(followers, provable_clusters(), start=_start)
                match_at = time.monotonic() + CLUSTERS_SECONDS
            wake_followers(followers, is_due=is_due)
        except Error as error:
            logger.warning("admission.unseen.unlisted", reason=type(error).__name__)
            connections.close_all()
            time.sleep(PAUSE_SECONDS)
        time.sleep(LOOK_SECONDS)


def match_followers(
    followers: dict[EnforcementEndpoint, Follower],
    clusters: Mapping[UUID, EnforcementEndpoint],
    *,
    start: Callable[[EnforcementEndpoint, Follower], None],
) -> None:
    """Start followers of new clusters, and end those of clusters that are gone or changed."""
    wanted = {endpoint: number for number, endpoint in clusters.items()}
    for endpoint in set(followers) - set(wanted):
        followers.pop(endpoint).end()
    for endpoint in set(wanted) - set(followers):
        followers[endpoint] = Follower(wanted[endpoint])
        start(endpoint, followers[endpoint])


def wake_followers(followers: Mapping[EnforcementEndpoint, Follower], *, is_due: bool) -> None:
    """Wake the followers of clusters with unseen pods that no other process looks after.

    Args:
        followers: By cluster.
        is_due: Whether all of them are woken.

    Raises:
        django.db.Error: The database is away.
    """
    busy = clusters_to_look_at(own_name())
    for follower in followers.values():
        if is_due or follower.cluster_id in busy:
            follower.wake.set()


def _start(endpoint: EnforcementEndpoint, follower: Follower) -> None:
    threading.Thread(
        target=follow,
        args=(looks_at(follower.cluster_id, endpoint), endpoint.slug, follower),
        name=f"unseen-pods-{endpoint.slug}",
        daemon=True,
    ).start()


def looks_at(cluster_id: UUID, endpoint: EnforcementEndpoint) -> Callable[[datetime], int]:
    """Return what a follower does of a cluster: it releases, and checks the applied selector."""
    proofs = PodProofs(ClusterCalls(timeout_seconds=(2, 5), retries=0))
    pods = UnseenPods(cluster_id, endpoint, proofs)
    selector = SelectorCheck(cluster_id, endpoint, proofs)

    def look(at: datetime) -> int:
        released = pods.look(at)
        # Where webhooks cannot be listed, releases go on; `webhooks_unlisted` says so.
        with (
            suppress(SourceUnavailableError),
            audited_use(slug=endpoint.slug, actor=ACTOR, at=at),
        ):
            selector.look(at)
        return released

    return look


def follow(look: Callable[[datetime], int], slug: str, follower: Follower) -> None:
    """Look whenever woken until stopped; a trouble that lasts is logged once.

    Args:
        look: Looks at one cluster's unseen pods once.
        slug: Of that cluster.
        follower: Wakes and ends this.
    """
    trouble = ""
    while not follower.stop.is_set():
        follower.wake.clear()
        seconds, reason = 0, ""
        try:
            look(timezone.now())
        except SourceUnavailableError as error:
            seconds, reason = PAUSE_SECONDS, error.reason
        except Exception as error:  # noqa: BLE001 - One look of many: logged, and tried again.
            # A lock that another transaction holds is soon free.
            is_soon = isinstance(error, Error) and is_busy(error)
            seconds, reason = 0 if is_soon else PAUSE_SECONDS, type(error).__name__
            connections.close_all()
        if reason and reason != trouble:
            logger.warning("admission.unseen.unread", cluster=slug, reason=reason)
        trouble = reason
        follower.stop.wait(seconds)
        if not follower.wake.wait(IDLE_SECONDS):
            connections.close_all()
            follower.wake.wait()
    connections.close_all()
