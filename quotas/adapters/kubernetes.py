"""The Kubernetes enforcer: ResourceQuotas per namespace, wholly ours, by server-side apply.

The objects carry our generation as an annotation. Applying refuses to go back behind a newer one,
sends the resource versions it has read, so that two workers cannot overwrite one another unseen,
and does not force: what another manager owns is reported with that manager's name and its values,
and taken over only by request.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from quotas.adapters.cluster_calls import (
    ClusterCalls,
    ClusterRefusalError,
    conflict_of,
    unavailable,
)
from quotas.adapters.quota_objects import (
    DesiredQuotaObject,
    NamespaceQuotas,
    body_of,
    quotas_in,
    scoped_quotas,
    whole_quota,
)
from quotas.adapters.refused_pods import find_refused
from quotas.adapters.webhook_configurations import follow_bound, webhooks_of
from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.protocols import DesiredQuota, EnforcementEndpoint, LiveQuota, SelectorChange
from tenants.domain.errors import SourceUnavailableError

BURST_CLASSES: Final = ("gpu-ledger-burst",)
APPLY_TRIES: Final = 3
"""How often to read and apply again after a write conflict."""
READ_SECONDS: Final = (2, 5)
"""To connect, and to read what every plan waits for; the last reading is used meanwhile."""
READ_TRIES: Final = 15
READ_EVERY_SECONDS: Final = 0.2
"""Together 3 s: the quota controller of a real cluster took up to 1.3 s to fill a status."""


class KubernetesQuotaEnforcer:
    """Writes quotas through the official client. Safe to share between threads."""

    def __init__(
        self,
        *,
        burst_classes: Sequence[str] = BURST_CLASSES,
        read_tries: int = READ_TRIES,
        read_every_seconds: float = READ_EVERY_SECONDS,
    ) -> None:
        """Set which priority classes are preemptible, and how patiently a status is read back."""
        self._burst_classes = tuple(burst_classes)
        self._read_tries = read_tries
        self._read_every_seconds = read_every_seconds
        self._calls = ClusterCalls()
        self._reads = ClusterCalls(timeout_seconds=READ_SECONDS, retries=0)

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Apply the desired quotas of a namespace; see `QuotaEnforcer.apply`.

        The scoped quotas of nominal and preemptible pods are read back before the quota of all pods
        is raised, so that nominal pods never take burst units.
        """
        for _ in range(APPLY_TRIES):
            current = self._list(endpoint, desired.namespace)
            current.refuse_stale(desired)
            found = self._apply_quota_objects(endpoint, desired, scoped_quotas(desired), current)
            if found is None:
                continue
            if not all(found.has(quota_cap) for quota_cap in scoped_quotas(desired)):
                return found.live()
            found = self._apply_quota_objects(endpoint, desired, (whole_quota(desired),), found)
            if found is not None:
                return found.live()
        raise SourceUnavailableError(
            f"The quota of {desired.namespace} was changed while it was applied.", reason="busy"
        )

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return what a namespace's quotas say; see `QuotaEnforcer.read`."""
        return self._list(endpoint, namespace).live()

    def read_webhooks(self, endpoint: EnforcementEndpoint) -> tuple[Mapping[str, Any], ...]:
        """Return the cluster's webhooks of this service; see `QuotaEnforcer.read_webhooks`."""
        return webhooks_of(self._reads, endpoint)

    def follow_bound(self, endpoint: EnforcementEndpoint, bound: Collection[str]) -> SelectorChange:
        """Make our webhooks name these namespaces; see `QuotaEnforcer.follow_bound`."""
        return follow_bound(self._reads, endpoint, bound)

    def read_refused(
        self, endpoint: EnforcementEndpoint, *, since: datetime
    ) -> tuple[RefusedWorkload, ...]:
        """Return what lacks pods because of our quotas; see `QuotaEnforcer.read_refused`."""
        return find_refused(self._reads, endpoint, since=since)

    def _apply_quota_objects(
        self,
        endpoint: EnforcementEndpoint,
        desired: DesiredQuota,
        quota_caps: Sequence[DesiredQuotaObject],
        current: NamespaceQuotas,
    ) -> NamespaceQuotas | None:
        """Apply objects and return how they are read back; None when one was changed in between."""
        for quota_cap in quota_caps:
            body = body_of(
                quota_cap,
                desired,
                version=current.version(quota_cap.name),
                burst_classes=self._burst_classes,
            )
            if not self._patch(endpoint, desired, quota_cap, body, current=current):
                return None
        return self._read_back(endpoint, desired, quota_caps) if quota_caps else current

    def _read_back(
        self,
        endpoint: EnforcementEndpoint,
        desired: DesiredQuota,
        quota_caps: Iterable[DesiredQuotaObject],
    ) -> NamespaceQuotas:
        """Read until the status has caught up, or the tries are used up.

        Raises:
            StaleGenerationError: A newer generation was applied since.
        """
        for tries_left in reversed(range(self._read_tries)):
            found = self._list(endpoint, desired.namespace)
            found.refuse_stale(desired)
            if all(found.has(quota_cap) for quota_cap in quota_caps) or not tries_left:
                break
            time.sleep(self._read_every_seconds)
        return found

    def _list(self, endpoint: EnforcementEndpoint, namespace: str) -> NamespaceQuotas:
        try:
            return quotas_in(namespace, self._calls.get(endpoint, _path(namespace)))
        except ClusterRefusalError as error:
            raise unavailable(error, f"The quota of {namespace}") from error

    def _patch(
        self,
        endpoint: EnforcementEndpoint,
        desired: DesiredQuota,
        quota_cap: DesiredQuotaObject,
        body: dict[str, object],
        *,
        current: NamespaceQuotas,
    ) -> bool:
        """Apply, and return whether it went through; False when it was changed in between."""
        namespace = desired.namespace
        path = f"{_path(namespace)}/{quota_cap.name}"
        try:
            self._calls.apply(endpoint, path, body, is_forced=desired.is_forced)
        except ClusterRefusalError as error:
            if error.managers:
                differences = current.differences(quota_cap)
                raise conflict_of(
                    error, f"The quota of {namespace}", differences=differences
                ) from error
            if error.status == HTTPStatus.CONFLICT:
                return False
            raise unavailable(error, f"The quota of {namespace}") from error
        return True


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas"
