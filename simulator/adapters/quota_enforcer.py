"""A simulated enforcer: clusters in memory that keep quotas as Kubernetes' server-side apply does.

One store per process and cluster slug, so that all enforcers share the same clusters. It
uses no network and does not admit or refuse pods.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Condition, RLock
from typing import Any, ClassVar, Final

from quotas.domain.admission.webhook_configuration import selected_namespaces, selector_patch
from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.domain.enforcement.resource_quota import total_of
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaConflictError,
    SelectorChange,
    StaleGenerationError,
)
from quotas.protocols.drift import QuotaEvent, QuotaList, QuotaVersionExpiredError
from simulator.kubernetes_api.patches import json_patch
from tenants.domain.errors import SourceUnavailableError

OBJECT_NAME: Final = "gpu-ledger"
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
        events: Every change of our quotas, oldest first; a version is how many there were.
        oldest_version: The oldest version from which a watch may begin.
        watches: How many streams were opened.
        webhooks: Validating webhooks of this service, as an API server returns them.
        may_follow: Whether this service may change the selectors of its webhooks.
        refused: Workloads that lack pods because of our quotas, and when they were last refused.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self.events: list[QuotaEvent] = []
        self.oldest_version = 0
        self.watches = 0
        self.quotas: dict[str, SimulatedQuota] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.foreign: dict[str, dict[str, dict[str, int]]] = {}
        self.missing_namespaces: set[str] = set()
        self.failure = ""
        self.is_status_late = False
        self.webhooks: tuple[Mapping[str, Any], ...] = ()
        self.may_follow = True
        self.refused: list[tuple[RefusedWorkload, datetime]] = []

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None:
        """Change keys as `kubectl edit` does: the values and their ownership move."""
        with self.lock:
            quota = self.quotas.setdefault(namespace, SimulatedQuota())
            for key, units in hard.items():
                if quota.hard.get(key) != units:
                    quota.owners[key] = {manager}
                quota.hard[key] = units
            self.note(namespace)

    def delete_by_hand(self, namespace: str) -> None:
        """Delete a namespace's quota object."""
        with self.lock:
            self.quotas.pop(namespace, None)
            self.note(namespace)

    def note(self, namespace: str) -> None:
        """Report a change of a namespace's quota to watches."""
        with self.changed:
            version = str(len(self.events) + 1)
            key = (namespace, OBJECT_NAME)
            self.events.append(QuotaEvent(version, key, self.state(namespace)))
            self.changed.notify_all()

    def state(self, namespace: str) -> str:
        """Return a quota's values as text; "" without one."""
        quota = self.quotas.get(namespace)
        return "" if quota is None else json.dumps([quota.hard, quota.burst], sort_keys=True)

    def purge_history(self) -> None:
        """Expire the versions so far, and end watches that continue from them."""
        with self.changed:
            self.oldest_version = len(self.events) + 1
            self.events.append(QuotaEvent(str(self.oldest_version)))
            self.changed.notify_all()

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
            cluster.note(desired.namespace)
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

    def list_quotas(self, endpoint: EnforcementEndpoint) -> QuotaList:
        """Return the quotas of a cluster; see `QuotaWatchSource.list_quotas`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_reachable(cluster)
            return QuotaList(
                version=str(len(cluster.events)),
                quotas={name: self.read(endpoint, name) for name in sorted(cluster.quotas)},
                states={(name, OBJECT_NAME): cluster.state(name) for name in cluster.quotas},
            )

    def watch_quotas(
        self, endpoint: EnforcementEndpoint, *, version: str, timeout_seconds: int
    ) -> Iterator[QuotaEvent]:
        """Yield every change after a version; see `QuotaWatchSource.watch_quotas`."""
        cluster, position = self.cluster(endpoint.slug), int(version)
        with cluster.lock:
            cluster.watches += 1
        while True:
            with cluster.changed:
                _require_reachable(cluster)
                if position < cluster.oldest_version:
                    raise QuotaVersionExpiredError("The version is too old.")
                if position == len(cluster.events) and not cluster.changed.wait(timeout_seconds):
                    return
                if position < cluster.oldest_version:
                    raise QuotaVersionExpiredError("The version is too old.")
                events = cluster.events[position:]
            position += len(events)
            yield from events

    def read_webhooks(self, endpoint: EnforcementEndpoint) -> tuple[Mapping[str, Any], ...]:
        """Return the webhooks of this service; see `QuotaEnforcer.read_webhooks`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_reachable(cluster)
            return cluster.webhooks

    def follow_bound(self, endpoint: EnforcementEndpoint, bound: Collection[str]) -> SelectorChange:
        """Make the webhooks name these namespaces; see `QuotaEnforcer.follow_bound`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_reachable(cluster)
            configuration = {
                "metadata": {"resourceVersion": ""},
                "webhooks": [dict(one) for one in cluster.webhooks],
            }
            operations = selector_patch(configuration, bound)
            if operations and not cluster.may_follow:
                raise SourceUnavailableError("It may not be patched.", reason="forbidden")
            cluster.webhooks = tuple(json_patch(configuration, operations)["webhooks"])
            before = selected_namespaces(configuration) or frozenset()
            after = frozenset(bound) if operations else before
            return SelectorChange(
                is_changed=bool(operations), added=after - before, removed=before - after
            )

    def read_refused(
        self, endpoint: EnforcementEndpoint, *, since: datetime
    ) -> tuple[RefusedWorkload, ...]:
        """Return what lacks pods; see `QuotaEnforcer.read_refused`."""
        cluster = self.cluster(endpoint.slug)
        with cluster.lock:
            _require_reachable(cluster)
            found = [one for one, last_at in cluster.refused if last_at >= since]
            return tuple(sorted(found, key=lambda one: one.asked_at))


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
    """Refuse to change keys of others; with force they lose them."""
    differing = {
        key: units
        for key, units in sorted(desired.hard.items())
        if key in quota.hard and quota.hard[key] != units
    }
    if desired.is_forced:
        quota.owners |= {key: set() for key in differing}
    managers = {manager for key in differing for manager in quota.owners[key] - {FIELD_MANAGER}}
    if managers:
        names = tuple(sorted(managers))
        found = tuple(
            f"{key} is {quota.hard[key]} instead of {units}" for key, units in differing.items()
        )
        raise QuotaConflictError(
            f"The quota is also managed by {', '.join(names)}: {', '.join(found)}.",
            managers=names,
            differences=found,
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
