"""The routed enforcer: each cluster's quotas are written as its `quota_target` says."""

from collections.abc import Mapping, Sequence

from quotas.adapters.kubernetes import BURST_CLASSES, KubernetesQuotaEnforcer
from quotas.adapters.kueue import KueueQuotaEnforcer
from quotas.protocols import DesiredQuota, EnforcementEndpoint, LiveQuota, QuotaEnforcer


class RoutedQuotaEnforcer:
    """Writes ResourceQuotas where nothing else is said, and Kueue's queues where that is said."""

    def __init__(self, *, burst_classes: Sequence[str] = BURST_CLASSES) -> None:
        """Make one enforcer for each target."""
        self._by_target: Mapping[str, QuotaEnforcer] = {
            "resource_quota": KubernetesQuotaEnforcer(burst_classes=burst_classes),
            "kueue": KueueQuotaEnforcer(),
        }

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's quota say what is desired; see `QuotaEnforcer.apply`."""
        return self._by_target[endpoint.quota_target].apply(endpoint, desired)

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return what a namespace's quota says; see `QuotaEnforcer.read`."""
        return self._by_target[endpoint.quota_target].read(endpoint, namespace)
