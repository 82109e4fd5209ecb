"""Unseen pods: release what was admitted here and never created, as the API server proves.

A pod may be refused behind this webhook, by a ResourceQuota or by another webhook. Its reservation
is released when the API server has no pod of its name and uid, as soon as its controller no longer
lacks it, or no request for it can be under way any more (docs/adr/0043). While the API cannot be
read, a reservation expires as before.
"""

import os
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final
from uuid import UUID

import structlog
from django.utils import timezone

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import CONTROLLER_PATHS, PodProofs, PodsOfController
from quotas.domain.admission.values import PodQuestion
from quotas.models import ReleaseReason
from quotas.protocols import EnforcementEndpoint
from quotas.selectors.admission.unseen import (
    UnseenPod,
    provable_clusters,
    uncounted_pods,
    unseen_pods,
    unseen_siblings,
)
from quotas.services.admission.unseen import hold_release_lease, release_unseen, surplus_of
from tenants.domain.actors import system_actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

logger = structlog.get_logger(__name__)

ACTOR: Final = system_actor("admission.unseen")
QUOTA_SECONDS: Final = 10
"""How long a kube-apiserver evaluates ResourceQuotas before it gives up; they come last."""
WEBHOOK_SECONDS_MAX: Final = 30
"""The longest `timeoutSeconds` an API server takes: assumed where webhooks cannot be listed."""
WEBHOOKS_KEPT: Final = timedelta(minutes=1)
"""How long what was read of webhooks is used."""
CHECKED_AGAIN: Final = timedelta(seconds=5)
"""How soon a pod that exists, and still is not observed, is read again."""
CONTROLLERS_PER_LOOK: Final = 1
"""Read at a time, in three calls each, and then those of its pods that it does not lack."""
PODS_PER_LOOK: Final = 20
"""Read one by one: with four looks a second, 80 a second of one process for each cluster."""
PODS_LISTED: Final = 5
"""With more due pods than that, a namespace is read as a whole."""
NAMESPACES_PER_LOOK: Final = 1
"""Read at a time as a whole: one list finds all that a ResourceQuota refused at once."""
LEASE_SECONDS: Final = 3
"""How long the process that releases may be silent before another one does."""
LEASE_RENEWED: Final = timedelta(seconds=1)
CALL_SECONDS: Final = (Decimal("0.25"), Decimal("0.4"))
"""To connect and to read while a review waits: three reads are within the default deadline."""
REVIEWS_AT_ONCE: Final = 2
"""Reviews of a process that may wait for reads; others are refused as before."""


class UnseenPods:
    """The unseen pods of one cluster.

    Args:
        cluster_id: Which cluster.
        endpoint: Where its API is.
        proofs: Reads it.
    """

    def __init__(self, cluster_id: UUID, endpoint: EnforcementEndpoint, proofs: PodProofs) -> None:
        """Start without any knowledge."""
        self._cluster_id = cluster_id
        self._endpoint = endpoint
        self._proofs = proofs
        self._settled: dict[tuple[str, str], frozenset[str]] = {}
        self._checked: dict[str, datetime] = {}
        self._flight: tuple[datetime, timedelta] | None = None
        self._led: datetime | None = None

    def look(self, at: datetime) -> int:
        """Release what is proven not to exist; return how many reservations.

        While another process does it for this cluster, nothing is read of the API.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused.
            django.db.Error: The database is away or busy.
        """
        pods = unseen_pods(self._cluster_id)
        uids = {pod.uid for pod in pods}
        self._checked = {uid: when for uid, when in self._checked.items() if uid in uids}
        if not pods or not self._leads(at):
            return 0
        with audited_use(slug=self._endpoint.slug, actor=ACTOR, at=at):
            return self._trim(pods, at) + self._disprove(pods, at)

    def _leads(self, at: datetime) -> bool:
        """Whether this is the process that releases; it keeps the lease while there is work."""
        if self._led is not None and at - LEASE_RENEWED < self._led <= at:
            return True
        is_held = hold_release_lease(
            cluster_id=self._cluster_id,
            holder=own_name(),
            lease_seconds=LEASE_SECONDS,
            actor=ACTOR,
        )
        self._led = at if is_held else None
        return is_held

    def _trim(self, pods: tuple[UnseenPod, ...], at: datetime) -> int:
        """Release what controllers with several unseen pods do not lack."""
        siblings: dict[tuple[str, str], list[UnseenPod]] = defaultdict(list)
        for pod in pods:
            siblings[pod.namespace, pod.controller].append(pod)
        several = {
            key: frozenset(pod.uid for pod in known)
            for key, known in siblings.items()
            if len(known) > 1 and is_read(key[1])
        }
        self._settled = {key: kept for key, kept in self._settled.items() if key in several}
        changed = [key for key, uids in several.items() if self._settled.get(key) != uids]
        released = 0
        for namespace, controller in changed[:CONTROLLERS_PER_LOOK]:
            key, known = (namespace, controller), siblings[namespace, controller]
            found = self._proofs.find_lacking(self._endpoint, namespace, controller)
            surplus = _surplus(self._cluster_id, tuple(known), found, own=0)
            absent = _absent(self._proofs, self._endpoint, surplus)
            if len(surplus) <= PODS_PER_LOOK:
                self._settled[key] = several[key] - {pod.uid for pod in absent}
            released += _release(absent, ReleaseReason.REPLACED, at)
        return released

    def _disprove(self, pods: tuple[UnseenPod, ...], at: datetime) -> int:
        """Release pods that the API server does not have, once nothing can be under way."""
        old = [pod for pod in pods if pod.admitted_at <= at - timedelta(seconds=QUOTA_SECONDS)]
        if not old:
            return 0
        flight = self._flight_time(at)
        due = [
            pod
            for pod in old
            if pod.admitted_at + flight <= at
            and self._checked.get(pod.uid, pod.admitted_at) <= at - CHECKED_AGAIN
        ]
        # Those that exist unobserved, be it for long, keep no other waiting.
        due.sort(key=lambda pod: self._checked.get(pod.uid, pod.admitted_at))
        whole, listed = self._namespaces(due)
        released = self._release_absent(whole, listed, at)
        for pod in [pod for pod in due if pod not in whole][:PODS_PER_LOOK]:
            uid = self._proofs.find_pod_uid(self._endpoint, pod.namespace, pod.name)
            released += self._release_absent((pod,), {(pod.namespace, pod.name): uid}, at)
        return released

    def _namespaces(
        self, due: Collection[UnseenPod]
    ) -> tuple[tuple[UnseenPod, ...], dict[tuple[str, str], str]]:
        """Read namespaces with many due pods whole; return these pods, and uids by name."""
        by_namespace: dict[str, list[UnseenPod]] = defaultdict(list)
        for pod in due:
            by_namespace[pod.namespace].append(pod)
        many = [name for name, pods in by_namespace.items() if len(pods) > PODS_LISTED]
        read: list[UnseenPod] = []
        listed: dict[tuple[str, str], str] = {}
        for namespace in many[:NAMESPACES_PER_LOOK]:
            found = self._proofs.find_pod_uids(self._endpoint, namespace)
            if found is not None:
                read += by_namespace[namespace]
                listed |= {(namespace, name): uid for name, uid in found.items()}
        return tuple(read), listed

    def _release_absent(
        self, pods: Collection[UnseenPod], uids: Mapping[tuple[str, str], str], at: datetime
    ) -> int:
        """Release pods by what was read, those without a pod of their name in one statement."""
        found = {pod: uids.get((pod.namespace, pod.name), "") for pod in pods}
        absent = tuple(pod for pod, uid in found.items() if not uid)
        released = _release(absent, ReleaseReason.ABSENT, at) if absent else 0
        for pod, uid in found.items():
            if uid not in {"", pod.uid}:
                released += _release((pod,), ReleaseReason.ABSENT, at, present_uid=uid)
            self._checked[pod.uid] = at
        return released

    def _flight_time(self, at: datetime) -> timedelta:
        """Return how long a request may still be under way after it was admitted here."""
        if self._flight is None or self._flight[0] <= at - WEBHOOKS_KEPT:
            try:
                seconds = self._proofs.read_webhook_seconds(self._endpoint)
            except SourceUnavailableError as error:
                seconds = WEBHOOK_SECONDS_MAX
                self._note_unlisted(error.reason)
            self._flight = at, timedelta(seconds=seconds + QUOTA_SECONDS)
        return self._flight[1]

    def _note_unlisted(self, reason: str) -> None:
        """Log once that the longest time is assumed."""
        if self._flight is None:
            logger.warning(
                "admission.unseen.webhooks_unlisted", cluster=self._endpoint.slug, reason=reason
            )


@lru_cache(maxsize=1)
def own_name() -> str:
    """Return a name of this process alone, also among containers that count processes alike.

    Processes are started by fork, so it is asked for late.
    """
    return f"{socket.gethostname()[:40]}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def is_read(controller: str) -> bool:
    """Whether a controller, as "Kind/name", can tell how many pods it lacks."""
    return controller.partition("/")[0] in CONTROLLER_PATHS


def free_own(question: PodQuestion, *, seconds: Decimal) -> bool:
    """Release unseen pods of a refused pod's controller that it does not lack beside that pod.

    Args:
        question: Of a pod that was refused for lack of units.
        seconds: How long this may take: no read begins later.

    Returns:
        Whether anything was released, so that the question is worth asking again.

    Raises:
        django.db.Error: The database is away or busy.
    """
    if not _REVIEWS.acquire(blocking=False):
        return False
    try:
        return _free_own(question, seconds=seconds)
    finally:
        _REVIEWS.release()


_REVIEWS: Final = threading.BoundedSemaphore(REVIEWS_AT_ONCE)


def _free_own(question: PodQuestion, *, seconds: Decimal) -> bool:
    cluster_id, namespace = question.cluster_id, question.namespace
    controller, proofs = question.controller, _quick_proofs()
    end = time.monotonic_ns() + int(seconds * 1_000_000_000)
    # Read before the controller is: what asks after this is not touched.
    pods = unseen_siblings(cluster_id, namespace, controller, but=question.pod_uid)
    endpoint = provable_clusters().get(cluster_id) if pods else None
    if endpoint is None:
        return False
    try:
        with audited_use(slug=endpoint.slug, actor=ACTOR, at=timezone.now()):
            found = proofs.find_lacking(endpoint, namespace, controller)
            surplus = _surplus(cluster_id, pods, found, own=1)
            if time.monotonic_ns() > end:
                return False
            absent = _absent(proofs, endpoint, surplus[:PODS_LISTED])
    except SourceUnavailableError as error:
        logger.warning("admission.unseen.unread", cluster=endpoint.slug, reason=error.reason)
        return False
    is_late = time.monotonic_ns() > end
    return bool(_release(absent, ReleaseReason.REPLACED, timezone.now())) and not is_late


@lru_cache(maxsize=1)
def _quick_proofs() -> PodProofs:
    return PodProofs(ClusterCalls(timeout_seconds=CALL_SECONDS, retries=0))


def _surplus(
    cluster_id: UUID, pods: tuple[UnseenPod, ...], found: PodsOfController | None, *, own: int
) -> tuple[UnseenPod, ...]:
    """Return the pods to release; none where the controller could not be read.

    Args:
        cluster_id: Of the controller.
        pods: Its unseen pods, as they were before it was read.
        found: What was read.
        own: How many pods that it lacks are not among these.
    """
    if found is None:
        return ()
    # Pods that exist uncounted are counted by their siblings until they are observed.
    lacking = found.lacking - own + uncounted_pods(cluster_id, found.present)
    return surplus_of(pods, lacking=max(0, lacking), present=found.present)


def _absent(
    proofs: PodProofs, endpoint: EnforcementEndpoint, pods: tuple[UnseenPod, ...]
) -> tuple[UnseenPod, ...]:
    """Return the pods of a controller that do not exist: one that was taken from it may run."""
    listed = proofs.find_pod_uids(endpoint, pods[0].namespace) if len(pods) > PODS_LISTED else None
    if listed is not None:
        return tuple(pod for pod in pods if listed.get(pod.name) != pod.uid)
    return tuple(
        pod
        for pod in pods[:PODS_PER_LOOK]
        if proofs.find_pod_uid(endpoint, pod.namespace, pod.name) != pod.uid
    )


def _release(
    pods: tuple[UnseenPod, ...], reason: ReleaseReason, at: datetime, present_uid: str = ""
) -> int:
    released = release_unseen(pods=pods, reason=reason, present_uid=present_uid, actor=ACTOR, at=at)
    if released:
        logger.info("admission.unseen.released", reservations=released, reason=reason.value)
    return released
