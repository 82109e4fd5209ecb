"""The routed enforcer: it writes each cluster's quotas by its `quota_target`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from quotas.adapters.kubernetes import BURST_CLASSES, KubernetesQuotaEnforcer
from quotas.adapters.kueue import KueueQuotaEnforcer
from quotas.adapters.resource_quota_watch import KubernetesQuotaWatch
from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaEnforcer,
    SelectorChange,
)
from quotas.protocols.drift import QuotaEvent, QuotaList


class RoutedQuotaEnforcer:
    """Writes Kueue's queues where configured, otherwise ResourceQuotas."""

    def __init__(self, *, burst_classes: Sequence[str] = BURST_CLASSES) -> None:
        """Make one enforcer for each target."""
        self._by_target: Mapping[str, QuotaEnforcer] = {
            "resource_quota": KubernetesQuotaEnforcer(burst_classes=burst_classes),
            "kueue": KueueQuotaEnforcer(),
        }
        self._watch = KubernetesQuotaWatch()

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's quota say what is desired; see `QuotaEnforcer.apply`."""
        return self._by_target[endpoint.quota_target].apply(endpoint, desired)

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return the state of a namespace's quota; see `QuotaEnforcer.read`."""
        return self._by_target[endpoint.quota_target].read(endpoint, namespace)

    def list_quotas(self, endpoint: EnforcementEndpoint) -> QuotaList:
        """Return our ResourceQuotas in a cluster; see `QuotaWatchSource.list_quotas`."""
        return self._watch.list_quotas(endpoint)

    def watch_quotas(
        self, endpoint: EnforcementEndpoint, *, version: str, timeout_seconds: int
    ) -> Iterator[QuotaEvent]:
        """Yield every change after a version; see `QuotaWatchSource.watch_quotas`."""
        return self._watch.watch_quotas(endpoint, version=version, timeout_seconds=timeout_seconds)

    def read_webhooks(self, endpoint: EnforcementEndpoint) -> tuple[Mapping[str, Any], ...]:
        """Return the cluster's webhooks of this service; see `QuotaEnforcer.read_webhooks`."""
        return self._by_target[endpoint.quota_target].read_webhooks(endpoint)

    def follow_bound(self, endpoint: EnforcementEndpoint, bound: Collection[str]) -> SelectorChange:
        """Make our webhooks name these namespaces; see `QuotaEnforcer.follow_bound`."""
        return self._by_target[endpoint.quota_target].follow_bound(endpoint, bound)

    def read_refused(
        self, endpoint: EnforcementEndpoint, *, since: datetime
    ) -> tuple[RefusedWorkload, ...]:
        """Return what lacks pods because of our quotas; see `QuotaEnforcer.read_refused`."""
        return self._by_target[endpoint.quota_target].read_refused(endpoint, since=since)
