"""The Kueue enforcer: a ClusterQueue for each namespace, and the LocalQueue that leads to it.

Both are wholly ours, written by server-side apply and forced only by request. A queue counts as
applied when Kueue's controller has observed the generation that was written. Kueue's own
configuration is read with it: it may exclude a resource from every quota.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import yaml

from quotas.adapters.cluster_calls import (
    JSON,
    ClusterCalls,
    ClusterRefusalError,
    conflict_of,
    other_managers,
    unavailable,
)
from quotas.adapters.quota_objects import GENERATION, MANAGED_BY, generation_in, refuse_newer
from quotas.adapters.webhook_configurations import follow_bound, webhooks_of
from quotas.domain.enforcement.kueue import (
    QUEUE_NAME,
    UNREADABLE,
    KueueChecks,
    checks_notice,
    cluster_queue_name,
    cluster_queue_spec,
    has_settled,
    kueue_checks,
    local_queue_spec,
    queue_quota,
    queue_used,
    uncounted,
)
from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.domain.enforcement.resource_quota import total_of
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaConflictError,
    SelectorChange,
)
from tenants.domain.errors import SourceUnavailableError

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
CONFIGURATION_NAME: Final = "kueue-manager-config"
CONFIGURATION_PATH: Final = f"/api/v1/namespaces/kueue-system/configmaps/{CONFIGURATION_NAME}"
CONFIGURATION_KEY: Final = "controller_manager_config.yaml"
"""Where Kueue's own manifests and its Helm chart keep it."""
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
        checks = self._checks(endpoint)
        if checks is not None and not desired.is_held:
            # A queue on hold admits nothing, whatever it counts.
            _refuse_uncounted(checks, desired)
        for _ in range(APPLY_TRIES):
            current = self._find(endpoint, desired.namespace)
            refuse_newer(_generation_of(current), desired)
            path = _queue_path(desired.namespace)
            if not self._patch(endpoint, desired, path, _queue(desired, current)):
                continue
            if self._patch(endpoint, desired, _local_path(desired.namespace), _local(desired)):
                return _noticed(self._read_back(endpoint, desired), checks)
        raise SourceUnavailableError(
            f"The queue of {desired.namespace} was changed while it was applied.", reason="busy"
        )

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return the state of a namespace's queue; see `QuotaEnforcer.read`."""
        live = _live_of(namespace, self._find(endpoint, namespace))
        return _noticed(live, self._checks(endpoint)) if live.generation else live

    def _checks(self, endpoint: EnforcementEndpoint) -> KueueChecks | None:
        """Return what Kueue's configuration says about resources; None when it cannot be read."""
        try:
            data = self._calls.get(endpoint, CONFIGURATION_PATH).get("data") or {}
            return kueue_checks(yaml.safe_load(data[CONFIGURATION_KEY]))
        except ClusterRefusalError as error:
            if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
                return None
            raise unavailable(error, "Kueue's configuration") from error
        except (AttributeError, KeyError, TypeError, yaml.YAMLError):
            return None

    def read_webhooks(self, endpoint: EnforcementEndpoint) -> tuple[Mapping[str, Any], ...]:
        """Return the cluster's webhooks of this service; see `QuotaEnforcer.read_webhooks`."""
        return webhooks_of(self._calls, endpoint)

    def follow_bound(self, endpoint: EnforcementEndpoint, bound: Collection[str]) -> SelectorChange:
        """Make our webhooks name these namespaces; see `QuotaEnforcer.follow_bound`."""
        return follow_bound(self._calls, endpoint, bound)

    def read_refused(
        self,
        endpoint: EnforcementEndpoint,  # noqa: ARG002 - Every enforcer has the same signature.
        *,
        since: datetime,  # noqa: ARG002 - As above.
    ) -> tuple[RefusedWorkload, ...]:
        """Return nothing: Kueue keeps what does not fit in its queues, and refuses no pod."""
        return ()

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

    def _patch(
        self, endpoint: EnforcementEndpoint, desired: DesiredQuota, path: str, body: JSON
    ) -> bool:
        """Apply, and return whether it went through; False when it was changed in between."""
        namespace = body["metadata"].get("namespace") or body["metadata"]["name"]
        try:
            self._calls.apply(endpoint, path, body, is_forced=desired.is_forced)
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


def _refuse_uncounted(checks: KueueChecks, desired: DesiredQuota) -> None:
    """Refuse limits that Kueue would not compare with anything.

    Raises:
        QuotaConflictError: Its configuration excludes a resource that is limited.
    """
    found = uncounted(checks, desired.hard)
    if found:
        names, prefixes = ", ".join(sorted(found)), ", ".join(sorted(set(found.values())))
        raise QuotaConflictError(
            f"Kueue's configuration excludes {names} from every quota: remove {prefixes} from "
            f"excludeResourcePrefixes in the ConfigMap {CONFIGURATION_NAME} and restart Kueue.",
            managers=(CONFIGURATION_NAME,),
        )


def _noticed(live: LiveQuota, checks: KueueChecks | None) -> LiveQuota:
    """Return a state with what Kueue's configuration says about it."""
    notice = UNREADABLE if checks is None else checks_notice(checks, live.hard)
    return replace(live, notice=notice)


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
