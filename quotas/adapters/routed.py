"""The routed enforcer: it writes each cluster's quotas by its `quota_target`."""

from collections.abc import Mapping, Sequence

from quotas.adapters.kubernetes import BURST_CLASSES, KubernetesQuotaEnforcer
from quotas.adapters.kueue import KueueQuotaEnforcer
from quotas.protocols import DesiredQuota, EnforcementEndpoint, LiveQuota, QuotaEnforcer


class RoutedQuotaEnforcer:
    """Writes Kueue's queues where configured, otherwise ResourceQuotas."""

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
        """Return the state of a namespace's quota; see `QuotaEnforcer.read`."""
        return self._by_target[endpoint.quota_target].read(endpoint, namespace)
