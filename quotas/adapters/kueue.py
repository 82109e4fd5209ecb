"""The Kueue enforcer: a ClusterQueue for each namespace, and the LocalQueue that leads to it.

Both are wholly ours, written by server-side apply and never forced. A queue counts as applied when
Kueue's controller has observed the generation that was written.
"""

import time
from http import HTTPStatus
from typing import Final

from quotas.adapters.cluster_calls import (
    JSON,
    ClusterCalls,
    ClusterRefusalError,
    conflict_of,
    other_managers,
    unavailable,
)
from quotas.adapters.quota_objects import GENERATION, MANAGED_BY, generation_in, refuse_newer
from quotas.domain.enforcement.kueue import (
    QUEUE_NAME,
    cluster_queue_name,
    cluster_queue_spec,
    has_settled,
    local_queue_spec,
    queue_quota,
    queue_used,
)
from quotas.domain.enforcement.resource_quota import total_of
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
)
from tenants.domain.errors import SourceUnavailableError

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
READ_TRIES: Final = 15
READ_EVERY_SECONDS: Final = 0.2
APPLY_TRIES: Final = 3


class KueueQuotaEnforcer:
    """Writes queues of Kueue. Safe to share between threads."""

    def __init__(
        self, *, read_tries: int = READ_TRIES, read_every_seconds: float = READ_EVERY_SECONDS
    ) -> None:
        """Set how patiently Kueue's controller is waited for."""
        self._read_tries = read_tries
        self._read_every_seconds = read_every_seconds
        self._calls = ClusterCalls()

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's queues say what is desired; see `QuotaEnforcer.apply`."""
        for _ in range(APPLY_TRIES):
            current = self._find(endpoint, desired.namespace)
            refuse_newer(_generation_of(current), desired)
            if not self._patch(endpoint, _queue_path(desired.namespace), _queue(desired, current)):
                continue
            path = _local_path(desired.namespace)
            if self._patch(endpoint, path, _local(desired)):
                return self._read_back(endpoint, desired)
        raise SourceUnavailableError(
            f"The queue of {desired.namespace} was changed while it was applied.", reason="busy"
        )

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return the state of a namespace's queue; see `QuotaEnforcer.read`."""
        return _live_of(namespace, self._find(endpoint, namespace))

    def _read_back(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Read until Kueue has seen what was written, or the tries are used up."""
        for tries_left in reversed(range(self._read_tries)):
            found = self._find(endpoint, desired.namespace)
            refuse_newer(_generation_of(found), desired)
            if _has_settled(found) or not tries_left:
                break
            time.sleep(self._read_every_seconds)
        return _live_of(desired.namespace, found)

    def _find(self, endpoint: EnforcementEndpoint, namespace: str) -> JSON:
        """Return the ClusterQueue; empty when there is none."""
        try:
            return self._calls.get(endpoint, _queue_path(namespace))
        except ClusterRefusalError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.document.get("details"):
                return {}
            raise _refused(error, namespace) from error

    def _patch(self, endpoint: EnforcementEndpoint, path: str, body: JSON) -> bool:
        """Apply, and return whether it went through; False when it was changed in between."""
        namespace = body["metadata"].get("namespace") or body["metadata"]["name"]
        try:
            self._calls.apply(endpoint, path, body)
        except ClusterRefusalError as error:
            if error.managers:
                raise conflict_of(error, f"The queue of {namespace}") from error
            if error.status == HTTPStatus.CONFLICT:
                return False
            raise _refused(error, namespace) from error
        return True


def _refused(error: ClusterRefusalError, namespace: str) -> SourceUnavailableError:
    """Return the error for a refused call; an unknown API group is a cluster without Kueue."""
    if error.status == HTTPStatus.NOT_FOUND and not error.document.get("details"):
        return SourceUnavailableError(
            f"The cluster does not serve {API_VERSION}: Kueue is not installed.",
            reason="kueue_missing",
        )
    return unavailable(error, f"The queue of {namespace}")


def _queue(desired: DesiredQuota, current: JSON) -> JSON:
    spec = cluster_queue_spec(
        namespace=desired.namespace,
        hard=desired.hard,
        burst=desired.burst_hard,
        cohort=desired.cohort,
        is_held=desired.is_held,
    )
    metadata = _metadata(desired, cluster_queue_name(desired.namespace))
    version = (current.get("metadata") or {}).get("resourceVersion")
    if version is not None:
        metadata["resourceVersion"] = version
    return {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": metadata, "spec": spec}


def _local(desired: DesiredQuota) -> JSON:
    metadata = {**_metadata(desired, QUEUE_NAME), "namespace": desired.namespace}
    spec = local_queue_spec(desired.namespace)
    return {"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": metadata, "spec": spec}


def _metadata(desired: DesiredQuota, name: str) -> JSON:
    return {
        "name": name,
        "labels": MANAGED_BY,
        "annotations": {GENERATION: str(desired.generation)},
    }


def _generation_of(queue: JSON) -> int:
    return generation_in((queue.get("metadata") or {}).get("annotations") or {})


def _has_settled(queue: JSON) -> bool:
    return bool(queue) and has_settled(queue["metadata"], queue.get("status") or {})


def _live_of(namespace: str, queue: JSON) -> LiveQuota:
    """Return the values of a queue; nothing until Kueue has observed it."""
    status = queue.get("status") or {}
    if not _has_settled(queue):
        return LiveQuota(namespace, {}, {}, _generation_of(queue))
    try:
        quota, used = queue_quota(queue.get("spec") or {}), queue_used(status)
    except ValueError as error:
        raise SourceUnavailableError(
            f"The queue of {namespace} says no whole number.", reason="bad_answer"
        ) from error
    is_bursting = any(quota.burst.values())
    return LiveQuota(
        namespace=namespace,
        hard=quota.hard,
        used={key: used.get(key, 0) for key in quota.hard},
        generation=_generation_of(queue),
        burst_hard=quota.burst,
        burst_used={},
        total_hard=total_of(quota.hard, quota.burst) if is_bursting else quota.hard,
        managers=other_managers(queue),
    )


def _queue_path(namespace: str) -> str:
    return f"/apis/{API_VERSION}/clusterqueues/{cluster_queue_name(namespace)}"


def _local_path(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/localqueues/{QUEUE_NAME}"
