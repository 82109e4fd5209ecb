"""Namespaces: what planning reads of each, and what its ResourceQuota leaves.

A fixed number of statements, however many namespaces and pods there are.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject

from metering.domain.catalogue.sizing import DEFAULT_RULES
from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.held import held_by_place, only_models
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.devices.usage import sizes_seen
from quotas.domain.admission.demands import likely_sizes, size_by_name
from quotas.domain.enforcement.caps import NamespaceCap, believed, cap_of
from quotas.domain.enforcement.coverage import WebhookCoverage
from quotas.domain.enforcement.division import AskedUnits, ClusterNamespace
from quotas.domain.enforcement.planning import CapFacts, PlaceFacts, ceiling_of
from quotas.domain.enforcement.resource_quota import CLAIM_PREFIX
from quotas.models import EnforcementTarget, QuotaSuspension
from quotas.selectors.enforcement.targets import DRIFT_CHECK_EVERY, Bound, Key
from quotas.selectors.limits.units_now import WITHOUT_ADMISSION
from tenants.models import Cluster, NamespaceBinding
from tenants.models.cluster import QuotaTarget

ASKED_KEPT: Final = timedelta(minutes=5)
"""How long what was read of refused pods is used while the cluster cannot be read."""
Used = Mapping[Key, Mapping[tuple[GPUSize, str], int]]


@dataclass(frozen=True)
class Ground:
    """Input of planning besides the limits, all as of one time.

    Attributes:
        at: That time, UTC.
        sizes: Cluster id to the size each offered resource name counts to.
        models: Cluster id to the one GPU model of the names that have only one.
        nominal: Units that ordinary pods hold, by namespace.
        burst: Units that preemptible pods hold, by namespace.
        suspended: Ids of suspended organizations and projects.
    """

    at: datetime
    sizes: Mapping[UUID, Mapping[str, GPUSize | None]]
    models: Mapping[UUID, Mapping[str, str]]
    nominal: Used
    burst: Used
    suspended: frozenset[UUID]


def ground_of(clusters: Iterable[Cluster], *, at: datetime, burst_classes: Iterable[str]) -> Ground:
    """Return the input of planning besides limits and bindings."""
    nominal, burst = _used(burst_classes)
    known = list(clusters)
    models: dict[UUID, dict[str, str]] = {}
    for (cluster_id, name), group in only_models(at=at).items():
        models.setdefault(cluster_id, {})[name] = group
    return Ground(
        at=at,
        sizes=_sizes_of(known, at=at),
        models=models,
        nominal=nominal,
        burst=burst,
        suspended=_suspended(at),
    )


def place_facts(
    *,
    clusters: Mapping[UUID, Cluster],
    bindings: Mapping[Key, Bound],
    targets: Mapping[Key, EnforcementTarget],
    ground: Ground,
    counted: Mapping[UUID, WebhookCoverage],
) -> dict[Key, PlaceFacts]:
    """Return what planning needs of every namespace that is bound or was planned before.

    Args:
        clusters: The enforced ones, by id.
        bindings: Tenants by namespace.
        targets: What was planned before.
        ground: As of now.
        counted: Namespaces whose pods admission counts exactly, by cluster id.
    """
    return {
        key: _facts_of(
            key,
            clusters[key[0]],
            bound=bindings.get(key),
            target=targets.get(key),
            ground=ground,
            is_counted=key[0] in counted and counted[key[0]].covers(key[1]),
        )
        for key in sorted({*bindings, *targets}, key=str)
        if key[0] in clusters
    }


def _facts_of(
    key: Key,
    cluster: Cluster,
    *,
    bound: Bound | None,
    target: EnforcementTarget | None,
    ground: Ground,
    is_counted: bool,
) -> PlaceFacts:
    return PlaceFacts(
        place=ClusterNamespace(cluster.slug, key[1]),
        project_id=None if bound is None else bound.project_id,
        organization_id=None if bound is None else bound.organization_id,
        offered=_counted(cluster),
        sizes=ground.sizes[cluster.pk],
        models=ground.models.get(cluster.pk, {}),
        nominal=CapFacts(
            used=ground.nominal.get(key, {}),
            desired=None if target is None else target.desired_hard,
            ceiling={} if target is None else _nominal_ceiling(target),
            asked=_asked(target, at=ground.at, is_burst=False),
        ),
        burst=CapFacts(
            used=ground.burst.get(key, {}),
            desired=None if target is None else target.desired_burst,
            ceiling={}
            if target is None
            else ceiling_of(target.ceiling_burst, target.live_burst_used),
            asked=_asked(target, at=ground.at, is_burst=True),
        ),
        is_suspended=bound is not None
        and not ground.suspended.isdisjoint({bound.project_id, bound.organization_id}),
        is_counted=is_counted,
    )


def _nominal_ceiling(target: EnforcementTarget) -> dict[str, int]:
    """Return the most that ordinary pods may hold by a quota, by key.

    A quota that was lowered below its use evicts nothing: also pods that wait for a node, which no
    allocation shows, keep what they have.
    """
    burst = target.live_burst_used
    used = {key: units - burst.get(key, 0) for key, units in target.live_used.items()}
    return ceiling_of(target.ceiling_hard, used)


def _asked(
    target: EnforcementTarget | None, *, at: datetime, is_burst: bool
) -> dict[str, tuple[AskedUnits, ...]]:
    """Return the pods that a namespace's quota refuses, by key; none of an old reading."""
    if target is None or target.refused_read_at is None or target.refused_read_at < at - ASKED_KEPT:
        return {}
    asked: dict[str, tuple[AskedUnits, ...]] = {}
    for one in target.refused_pods:
        if one["is_burst"] is is_burst:
            since = datetime.fromisoformat(one["asked_at"])
            for key, units in one["requested"].items():
                asked[key] = (*asked.get(key, ()), AskedUnits(since, units, one["pods"]))
    return asked


def _counted(cluster: Cluster) -> tuple[str, ...]:
    """Return the offered resources that the cluster's quotas can count.

    Kueue counts claims under names of its own configuration.
    """
    is_kueue = cluster.quota_target == QuotaTarget.KUEUE
    return tuple(
        name
        for name in cluster.offered_resources
        if not (is_kueue and name.startswith(CLAIM_PREFIX))
    )


def _used(burst_classes: Iterable[str]) -> tuple[Used, Used]:
    quota_caps: tuple[dict[Key, dict[tuple[GPUSize, str], int]], ...] = ({}, {})
    for held in held_by_place(burst_classes=burst_classes):
        by_cell = quota_caps[held.is_burst].setdefault((held.cluster_id, held.namespace), {})
        cell = (held.size, held.model_group)
        by_cell[cell] = by_cell.get(cell, 0) + held.units
    return quota_caps[0], quota_caps[1]


def _suspended(at: datetime) -> frozenset[UUID]:
    """Return the suspended tenant: the project, or the whole organization."""
    rows = QuotaSuspension.objects.filter(begin_at__lte=at, end_at=None)
    whole = rows.filter(project=None).values_list("organization_id", flat=True)
    parts = rows.values_list("project_id", flat=True)
    return frozenset((*whole, *filter(None, parts)))


def _sizes_of(
    clusters: Iterable[Cluster], *, at: datetime
) -> dict[UUID, dict[str, GPUSize | None]]:
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    seen = sizes_seen(at=at)
    return {
        cluster.pk: {
            name: size_by_name(name, rules=rules, seen=seen.get((cluster.pk, name), ()))
            for name in cluster.offered_resources
        }
        for cluster in clusters
    }


BELIEVED_FOR: Final = DRIFT_CHECK_EVERY * 5 // 2
"""25 minutes: one reading may fail. After that, pods may have changed without a reading."""
Sizes = Mapping[str, frozenset[GPUSize]]


@dataclass(frozen=True)
class StoredCap:
    """The quota of one namespace, as last read; empty when never.

    Attributes:
        live: "hard" and "used", "burst_hard" and "burst_used", each by key.
        read_at: When, UTC; None when never.
        age: How long ago that was; zero when never.
    """

    namespace: str
    sizes: Sizes
    live: Mapping[str, Mapping[str, int]]
    read_at: datetime | None = None
    age: timedelta = timedelta(0)

    def of(self, size: GPUSize, *, is_burst: bool = False) -> NamespaceCap:
        """Return what it leaves of a size to ordinary or to preemptible pods.

        One that was not read for long leaves whatever is asked.
        """
        hard, used = self.live.get("hard", {}), self.live.get("used", {})
        burst = self.live.get("burst_used", {})
        if is_burst:
            hard, used = self.live.get("burst_hard", {}), burst
        else:
            # `used` is the total of all pods.
            used = {key: units - burst.get(key, 0) for key, units in used.items()}
        quota_cap = cap_of(self.namespace, size, sizes=self.sizes, hard=hard, used=used)
        if self.read_at is None:
            return quota_cap
        return believed(quota_cap, read_at=self.read_at, is_old=self.age > BELIEVED_FOR)


CapsByNamespace = Mapping[tuple[UUID, UUID], tuple[StoredCap, ...]]
"""By project and cluster; every namespace the project has there."""


def caps_of_projects(project_ids: Collection[UUID], *, at: datetime) -> CapsByNamespace:
    """Return the caps of projects in clusters whose admission is off.

    Args:
        project_ids: Projects of the namespaces.
        at: When, UTC: decides the binding of a namespace, and the age of a reading.
    """
    rows = _rows(project_ids, at=at)
    if not any(live for *_, live, _ in rows):
        return {}
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    seen = sizes_seen(at=at)
    offers: dict[UUID, Sizes] = {
        cluster_id: {
            name: likely_sizes(name, rules=rules, seen=seen.get((cluster_id, name), ()))
            for name in offered
        }
        for _, cluster_id, _, offered, _, _ in rows
    }
    found: dict[tuple[UUID, UUID], tuple[StoredCap, ...]] = {}
    for project_id, cluster_id, namespace, _, live, read_at in rows:
        age = timedelta(0) if read_at is None else at - read_at
        quota_cap = StoredCap(namespace, offers[cluster_id], live or {}, read_at, age)
        key = (project_id, cluster_id)
        found[key] = (*found.get(key, ()), quota_cap)
    return found


def _rows(project_ids: Collection[UUID], *, at: datetime) -> list[tuple[Any, ...]]:
    read = EnforcementTarget.objects.filter(
        cluster=OuterRef("cluster"), namespace=OuterRef("namespace"), checked_at__isnull=False
    )
    said = JSONObject(
        hard="live_hard",
        used="live_used",
        burst_hard="live_burst",
        burst_used="live_burst_used",
    )
    rows = NamespaceBinding.objects.filter(
        project__in=list(project_ids),
        valid__contains=at,
        cluster__admission_mode__in=WITHOUT_ADMISSION,
    ).annotate(live=Subquery(read.values(said=said)), read_at=Subquery(read.values("checked_at")))
    columns = ("project_id", "cluster_id", "namespace", "cluster__offered_resources")
    ordered = rows.order_by("cluster__slug", "namespace")
    return list(ordered.values_list(*columns, "live", "read_at"))
