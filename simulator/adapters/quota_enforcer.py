"""A simulated enforcer: clusters in memory that keep quotas as Kubernetes' server-side apply does.

One store per process and cluster slug, so that all enforcers share the same clusters. It
uses no network and does not admit or refuse pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import ClassVar, Final

from quotas.domain.enforcement.resource_quota import total_of
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaConflictError,
    StaleGenerationError,
)
from tenants.domain.errors import SourceUnavailableError

FIELD_MANAGER: Final = "gpu-ledger"


@dataclass
class SimulatedQuota:
    """One namespace's ResourceQuota: its keys, their owners, and its generation.

    Attributes:
        burst: What preemptible pods may use beyond it, by key; only we write it.
    """

    hard: dict[str, int] = field(default_factory=dict)
    owners: dict[str, set[str]] = field(default_factory=dict)
    generation: int = 0
    burst: dict[str, int] = field(default_factory=dict)

    @property
    def others(self) -> tuple[str, ...]:
        """Return the other owners of a key, in alphabetical order."""
        return tuple(sorted(set().union(*self.owners.values()) - {FIELD_MANAGER}))


class ReceivingCluster:
    """One cluster in memory; what a person could do to it by hand, tests do through it.

    Attributes:
        quotas: Ours, by namespace.
        foreign: Others' quotas by namespace and name.
        missing_namespaces: Namespaces the cluster does not have; it has all others.
        failure: Why nothing is answered, such as "timeout"; "" while the cluster is well.
        is_status_late: Whether the status lags behind the spec.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.quotas: dict[str, SimulatedQuota] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.foreign: dict[str, dict[str, dict[str, int]]] = {}
        self.missing_namespaces: set[str] = set()
        self.failure = ""
        self.is_status_late = False

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None:
        """Change keys as `kubectl edit` does: the values and their ownership move."""
        with self.lock:
            quota = self.quotas.setdefault(namespace, SimulatedQuota())
            for key, units in hard.items():
                if quota.hard.get(key) != units:
                    quota.owners[key] = {manager}
                quota.hard[key] = units

    def delete_by_hand(self, namespace: str) -> None:
        """Delete a namespace's quota object."""
        with self.lock:
            self.quotas.pop(namespace, None)

    def add_foreign(self, namespace: str, name: str, hard: Mapping[str, int]) -> None:
        """Add a quota of another name and another manager."""
        with self.lock:
            self.foreign.setdefault(namespace, {})[name] = dict(hard)

    def use(self, namespace: str, used: Mapping[str, int]) -> None:
        """Set the units that pods use of a namespace's keys."""
        with self.lock:
            self.used[namespace] = dict(used)


class SimulatedQuotaEnforcer:
    """Writes quotas into simulated clusters."""

    _clusters: ClassVar[dict[str, ReceivingCluster]] = {}
    _lock: ClassVar[RLock] = RLock()

    def __init__(self, *, burst_classes: Sequence[str] = ()) -> None:
        """Keep the burst classes; no pod is matched with them here."""
        self.burst_classes = tuple(burst_classes)

    @classmethod
    def cluster(cls, slug: str) -> ReceivingCluster:
        """Return a cluster of this process, created on first use."""
        with cls._lock:
            return cls._clusters.setdefault(slug, ReceivingCluster())

    @classmethod
    def purge(cls) -> None:
        """Delete every cluster of this process."""
        with cls._lock:
            cls._clusters.clear()

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Apply the desired quota of a namespace; see `QuotaEnforcer.apply`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_answer(cluster, desired.namespace)
            quota = cluster.quotas.get(desired.namespace, SimulatedQuota())
            _refuse_stale(quota, desired)
            _refuse_conflict(quota, desired)
            before = self.read(endpoint, desired.namespace)
            _apply(quota, desired)
            cluster.quotas[desired.namespace] = quota
            return before if cluster.is_status_late else self.read(endpoint, desired.namespace)

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return a namespace's quota; see `QuotaEnforcer.read`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_reachable(cluster)
            quota = cluster.quotas.get(namespace, SimulatedQuota())
            used = cluster.used.get(namespace, {})
            return LiveQuota(
                namespace=namespace,
                hard=dict(sorted(quota.hard.items())),
                used={key: used.get(key, 0) for key in sorted(quota.hard)},
                generation=quota.generation,
                burst_hard=dict(sorted(quota.burst.items())),
                burst_used=dict.fromkeys(sorted(quota.burst), 0),
                total_hard=total_of(quota.hard, quota.burst) if quota.burst else {},
                managers=quota.others,
                foreign=dict(cluster.foreign.get(namespace, {})),
            )


def _require_reachable(cluster: ReceivingCluster) -> None:
    if cluster.failure:
        raise SourceUnavailableError("The cluster did not answer.", reason=cluster.failure)


def _require_answer(cluster: ReceivingCluster, namespace: str) -> None:
    _require_reachable(cluster)
    if namespace in cluster.missing_namespaces:
        raise SourceUnavailableError(
            f"The cluster has no namespace {namespace}.", reason="namespace_missing"
        )


def _refuse_stale(quota: SimulatedQuota, desired: DesiredQuota) -> None:
    if quota.generation > desired.generation:
        raise StaleGenerationError(
            f"The cluster has generation {quota.generation}, newer than {desired.generation}.",
            generation=quota.generation,
        )


def _refuse_conflict(quota: SimulatedQuota, desired: DesiredQuota) -> None:
    managers = {
        manager
        for key, units in desired.hard.items()
        if key in quota.hard and quota.hard[key] != units
        for manager in quota.owners[key] - {FIELD_MANAGER}
    }
    if managers:
        names = tuple(sorted(managers))
        raise QuotaConflictError(
            f"The quota is also managed by {', '.join(names)}.", managers=names
        )


def _apply(quota: SimulatedQuota, desired: DesiredQuota) -> None:
    """Set every desired key, and delete those that are no longer sent and have no other owner."""
    for key in [key for key in quota.hard if key not in desired.hard]:
        quota.owners[key].discard(FIELD_MANAGER)
        if not quota.owners[key]:
            del quota.hard[key], quota.owners[key]
    for key, units in desired.hard.items():
        quota.hard[key] = units
        quota.owners.setdefault(key, set()).add(FIELD_MANAGER)
    quota.burst = dict(desired.burst_hard) or dict.fromkeys(quota.burst, 0)
    quota.generation = desired.generation
