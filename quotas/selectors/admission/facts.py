"""Facts of admission: what a cluster's pods are judged by, read together and kept for a moment.

A pod cannot wait for ten statements, and none of this changes from one pod to the next. What counts
against limits is not here: it is queried for every pod, under locks.
"""

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db import OperationalError
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    DEFAULT_VERSION,
    Catalogue,
    Rule,
    Sized,
    size_of,
)
from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.offers import OfferingNode, nodes_offering
from metering.selectors.allocations.watch import class_names
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.devices.usage import sizes_seen
from quotas.domain.admission.node_fit import NodeOffer
from quotas.domain.isolation.policy import Policy, ServingMode, WorkKind
from quotas.domain.isolation.rules import DEDICATED_LABEL, PRODUCT_LABEL, ResourceOption
from quotas.models import IsolationPolicy
from tenants.models import Cluster, NamespaceBinding
from tenants.models.cluster import AdmissionMode, FailurePolicy
from tenants.models.organization import LifecycleState


def isolation_policies() -> tuple[Policy, ...]:
    """Return every policy, by organization, project and kind of work; one statement."""
    rows = IsolationPolicy.objects.order_by(
        "organization__slug", "project__slug", "work_kind"
    ).values_list(
        "organization__slug",
        "project__slug",
        "work_kind",
        "modes",
        "allow_shared_with_other_tenants",
        "default_kind",
    )
    return tuple(
        Policy(
            organization=organization,
            project=project,
            work_kind=WorkKind(kind) if kind else None,
            modes=frozenset(ServingMode(mode) for mode in modes),
            allow_shared_with_other_tenants=allow_shared,
            default_kind=WorkKind(default) if default else None,
        )
        for organization, project, kind, modes, allow_shared, default in rows.iterator()
    )


KEPT_NANOSECONDS: Final = 2_000_000_000
OLD_NANOSECONDS_MAX: Final = 10_000_000_000
"""Facts older than this are not used while newer ones can be loaded."""
WAIT_SECONDS: Final = 1.5
"""How long a thread that needs new facts waits for the loading thread."""
CLUSTERS_MAX: Final = 1_000


@dataclass(frozen=True)
class AdmissionTenant:
    """Tenant of a namespace.

    Attributes:
        organization: Slug.
        project: Slug.
        default_owner: User name that owns pods without another owner; "" for none.
    """

    organization_id: UUID
    project_id: UUID
    organization: str
    project: str
    default_owner: str


@dataclass(frozen=True)
class AdmissionFacts:
    """One cluster, as its pods are judged.

    Attributes:
        user_prefix: What its API server puts before a person's name.
        user_label: Pod label that names the owner where no annotation does; "" for none.
        trusted: User names of operators that act on requests of others.
        offered: Every GPU resource name it offers.
        classes: The device class that serves each extended resource name.
        rules: The size catalogue in force.
        offers: What its nodes offer, nodes that are alike together.
        served: The same as isolation is judged by.
        seen: Sizes metering has lately seen under each resource name.
        tenants: By namespace.
        policies: Every isolation policy.
    """

    cluster_id: UUID
    slug: str
    mode: AdmissionMode
    on_failure: FailurePolicy
    user_prefix: str
    user_label: str
    trusted: frozenset[str]
    offered: frozenset[str]
    classes: Mapping[str, str]
    rules: tuple[Rule, ...]
    offers: tuple[NodeOffer, ...]
    served: tuple[ResourceOption, ...]
    seen: Mapping[str, frozenset[GPUSize]]
    tenants: Mapping[str, AdmissionTenant]
    policies: tuple[Policy, ...]

    @cached_property
    def has_several_tenants(self) -> bool:
        """Whether more than one organization has namespaces here."""
        return len({tenant.organization for tenant in self.tenants.values()}) > 1

    @cached_property
    def judged(self) -> dict[Hashable, Any]:
        """What the webhook has judged by these facts, for it to look up again."""
        return {}


def admission_facts(slug: str, at: datetime) -> AdmissionFacts | None:
    """Return the facts of an active cluster, None when there is none; seven statements.

    Args:
        slug: The cluster's.
        at: When, UTC: decides which bindings hold.
    """
    cluster = Cluster.objects.filter(slug=slug, state=LifecycleState.ACTIVE).first()
    if cluster is None:
        return None
    catalogue = catalogue_in_force() or Catalogue(DEFAULT_VERSION, DEFAULT_RULES)
    offers = _offers(nodes_offering(cluster.pk), catalogue)
    seen = {
        name: sizes for (owner, name), sizes in sizes_seen(at=at).items() if owner == cluster.pk
    }
    return AdmissionFacts(
        cluster_id=cluster.pk,
        slug=cluster.slug,
        mode=AdmissionMode(cluster.admission_mode),
        on_failure=FailurePolicy(cluster.admission_on_failure),
        user_prefix=cluster.kubernetes_user_prefix,
        user_label=cluster.user_label,
        trusted=frozenset(cluster.trusted_controllers),
        offered=frozenset(cluster.offered_resources),
        classes=MappingProxyType(
            {resource: name for name, resource in class_names(cluster.pk).items()}
        ),
        rules=catalogue.rules,
        offers=offers,
        served=_served(offers),
        seen=MappingProxyType(seen),
        tenants=MappingProxyType(_tenants(cluster.pk, at=at)),
        policies=isolation_policies(),
    )


def clusters_that_ask() -> tuple[str, ...]:
    """Return the slugs of active clusters with admission, by name; one statement."""
    asking = Cluster.objects.filter(state=LifecycleState.ACTIVE).exclude(
        admission_mode=AdmissionMode.OFF
    )
    return tuple(asking.order_by("slug").values_list("slug", flat=True)[:CLUSTERS_MAX])


def bound_namespaces(cluster_id: UUID, *, at: datetime) -> tuple[str, ...]:
    """Return the namespaces of a cluster that a project has or will have, by name; one statement.

    Args:
        cluster_id: Of the cluster.
        at: When, UTC: bindings that have ended by then are left out.
    """
    return bound_by_cluster([cluster_id], at=at)[cluster_id]


def bound_by_cluster(cluster_ids: Collection[UUID], *, at: datetime) -> dict[UUID, tuple[str, ...]]:
    """Return for each cluster the namespaces that a project has or will have; one statement.

    Args:
        cluster_ids: Which clusters.
        at: When, UTC: bindings that have ended by then are left out.
    """
    rows = NamespaceBinding.objects.filter(
        cluster_id__in=cluster_ids, valid__overlap=DateTimeTZRange(at, None)
    )
    found: dict[UUID, list[str]] = {cluster_id: [] for cluster_id in cluster_ids}
    for cluster_id, namespace in (
        rows.order_by("namespace").values_list("cluster_id", "namespace").distinct()
    ):
        found[cluster_id].append(namespace)
    return {cluster_id: tuple(namespaces) for cluster_id, namespaces in found.items()}


def _offers(nodes: Iterable[OfferingNode], catalogue: Catalogue) -> tuple[NodeOffer, ...]:
    alike: dict[tuple[frozenset[tuple[str, str]], frozenset[str]], list[str]] = {}
    for node in nodes:
        key = (frozenset(node.labels.items()), frozenset(node.units))
        alike.setdefault(key, []).append(node.node)
    return tuple(
        NodeOffer(frozenset(names), dict(labels), _sized(dict(labels), resources, catalogue))
        for (labels, resources), names in alike.items()
    )


def _sized(
    labels: Mapping[str, str], resources: Iterable[str], catalogue: Catalogue
) -> dict[str, Sized]:
    sizes = {name: size_of(catalogue, resource=name, labels=labels) for name in resources}
    return {name: size for name, size in sizes.items() if isinstance(size, Sized)}


def _served(offers: Iterable[NodeOffer]) -> tuple[ResourceOption, ...]:
    return tuple(
        ResourceOption(
            resource=resource,
            mode=sized.sharing_mode,
            product=offer.labels.get(PRODUCT_LABEL, ""),
            dedicated_to=offer.labels.get(DEDICATED_LABEL, ""),
            nodes=offer.nodes,
        )
        for offer in offers
        for resource, sized in sorted(offer.sized.items())
    )


def _tenants(cluster_id: UUID, *, at: datetime) -> dict[str, AdmissionTenant]:
    rows = NamespaceBinding.objects.filter(cluster_id=cluster_id, valid__contains=at).values_list(
        "namespace",
        "project__organization_id",
        "project_id",
        "project__organization__slug",
        "project__slug",
        "default_owner__username",
    )
    return {
        namespace: AdmissionTenant(organization_id, project_id, organization, project, owner or "")
        for namespace, organization_id, project_id, organization, project, owner in rows
    }


class FactsCache:
    """Facts by cluster, reloaded once they are older than two seconds; thread-safe.

    Old facts stay for callers that cannot load new ones: they hold the cluster's policy for the
    time in which the database is unavailable.

    Args:
        read: Returns the facts of a cluster at a time, None for an unknown one.
        clock: Monotonic clock, nanoseconds.
    """

    def __init__(
        self,
        read: Callable[[str, datetime], AdmissionFacts | None],
        clock: Callable[[], int],
    ) -> None:
        """Start empty."""
        self._read = read
        self._clock = clock
        self._kept: dict[str, tuple[int, AdmissionFacts]] = {}
        self._reading = threading.Lock()

    def facts(self, slug: str, *, at: datetime) -> AdmissionFacts | None:
        """Return facts at most two seconds old; None for an unknown cluster.

        One thread loads at a time. Meanwhile other threads use facts that are at most ten seconds
        old, as after a pause; otherwise they wait for the load.

        Raises:
            OperationalError: The loading thread does not return in time.
        """
        kept = self._younger(slug, KEPT_NANOSECONDS)
        if kept is not None:
            return kept
        old = self._younger(slug, OLD_NANOSECONDS_MAX)
        if not self._reading.acquire(timeout=WAIT_SECONDS if old is None else 0):
            if old is None:
                raise OperationalError("The facts of admission could not be read in time.")
            return old
        try:
            return self._younger(slug, KEPT_NANOSECONDS) or self._renew(slug, at)
        finally:
            self._reading.release()

    def at_hand(self, slug: str) -> AdmissionFacts | None:
        """Return facts that `facts` would return without reading or waiting; None if it would not.

        On None, call `facts` in a thread that may block.
        """
        is_read = self._reading.locked()
        return self._younger(slug, OLD_NANOSECONDS_MAX if is_read else KEPT_NANOSECONDS)

    def last_known(self, slug: str) -> AdmissionFacts | None:
        """Return the newest facts there are, however old; None when there never were any."""
        kept = self._kept.get(slug)
        return None if kept is None else kept[1]

    def purge(self) -> None:
        """Clear the cache, as after a change that must be seen at once."""
        self._kept.clear()

    def _younger(self, slug: str, nanoseconds: int) -> AdmissionFacts | None:
        kept = self._kept.get(slug)
        if kept is None or self._clock() - kept[0] >= nanoseconds:
            return None
        return kept[1]

    def _renew(self, slug: str, at: datetime) -> AdmissionFacts | None:
        begin = self._clock()
        facts = self._read(slug, at)
        if facts is None:
            self._kept.pop(slug, None)
            return None
        if len(self._kept) >= CLUSTERS_MAX:
            self._kept.clear()
        self._kept[slug] = (begin, facts)
        return facts
