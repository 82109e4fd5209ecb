"""Lines of the quota board: the figures of one limit, or of use without a limit."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.db.models import Q

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from quotas.domain.enforcement.caps import ClusterConstraints, NamespaceCap, cluster_constraints
from quotas.domain.headroom.headroom import Exhaustion, Headroom
from quotas.domain.limits.tally import TallyKey, UseByLimit
from quotas.models import QuotaLimit, QuotaSuspension
from quotas.selectors.admission.refusals import Refused, refused_lately
from quotas.selectors.enforcement.namespaces import CapsByNamespace, caps_of_projects
from quotas.selectors.headroom.forecast import expected_exhaustions, hoarded_quotas
from quotas.selectors.limits.in_force import GrantTerm, LimitInForce, grant_terms, limits_in_force
from quotas.selectors.limits.units_now import headroom_of, units_now
from tenants.models import Cluster

Suspensions = Mapping[tuple[UUID, UUID | None], str]
"""Why, by organization and project; a project of None is the whole organization."""


@dataclass(frozen=True)
class BoardLine:
    """One limit with what counts against it, or use that no limit of its own binds.

    Attributes:
        limit_state: "set", "unlimited", or "unset": then the level above decides.
        model_group: "" for every model.
        cluster: Slug; "" for every cluster.
        set_units: The limit without its grants; None where no number binds.
        grants: Those in force now, first to end first.
        hoarded_units: Units it reserves but does not use.
        refused: Workloads that wait for units, each once.
        exhaustion: Forecast time at which use reaches it; None without a forecast.
        cluster_constraints: Clusters without admission whose quotas leave the project less than the
            limit.
    """

    size: GPUSize
    headroom: Headroom
    limit_state: str = "unset"
    model_group: str = ""
    cluster: str = ""
    set_units: int | None = None
    grants: tuple[GrantTerm, ...] = ()
    hoarded_units: int = 0
    refused: int = 0
    exhaustion: Exhaustion | None = None
    cluster_constraints: ClusterConstraints = field(default_factory=ClusterConstraints)


@dataclass(frozen=True)
class BoardFacts:
    """All that the lines of some organizations are made of."""

    tally: UseByLimit
    limits: Mapping[TallyKey, LimitInForce]
    clusters: Mapping[UUID, str]
    grants: Mapping[UUID, tuple[GrantTerm, ...]]
    hoarded: Mapping[tuple[UUID, GPUSize], int]
    refusals: tuple[Refused, ...]
    suspensions: Suspensions
    exhaustions: Mapping[UUID, Exhaustion]
    refused: Counter[tuple[UUID, UUID | None, str | None, GPUSize]] = field(default_factory=Counter)
    quota_caps: CapsByNamespace = field(default_factory=dict)

    def keys_of(self, organization_id: UUID, project_id: UUID | None) -> list[TallyKey]:
        """Return what has a limit or is used, of a holder and its users, wide before narrow."""
        return sorted(self._by_holder.get((organization_id, project_id), ()), key=self._order)

    @cached_property
    def _by_holder(self) -> dict[tuple[UUID, UUID | None], set[TallyKey]]:
        """Every key by its organization and project, so that no holder looks through all."""
        found: dict[tuple[UUID, UUID | None], set[TallyKey]] = {}
        refused = (TallyKey(*key) for key in self.refused)
        for key in (*self.limits, *self.tally.holders(), *refused):
            found.setdefault((key.organization_id, key.project_id), set()).add(key)
        return found

    def line(self, key: TallyKey) -> BoardLine:
        """Return the line of a limit, or of use without one."""
        limit = self.limits.get(key)
        is_wide = not key.model_group and key.cluster_id is None
        headroom = headroom_of(limit, self.tally.taken(key))
        return BoardLine(
            size=key.size,
            headroom=headroom,
            model_group=key.model_group,
            cluster="" if key.cluster_id is None else self.clusters.get(key.cluster_id, ""),
            refused=self.refused[_refused_key(key)] if is_wide else 0,
            cluster_constraints=cluster_constraints(
                self._caps_of(key),
                is_limited=limit is not None,
                free_units=headroom.free_units,
            ),
            **({} if limit is None else self._of_limit(key, limit)),  # type: ignore[arg-type]
        )

    def _caps_of(self, key: TallyKey) -> dict[str, list[NamespaceCap]]:
        """Return what clusters say to a project by themselves, by their slugs."""
        if key.project_id is None or key.username is not None or key.model_group:
            return {}
        return {
            self.clusters.get(cluster_id, ""): [quota_cap.of(key.size) for quota_cap in quota_caps]
            for (project_id, cluster_id), quota_caps in self.quota_caps.items()
            if project_id == key.project_id and key.cluster_id in {None, cluster_id}
        }

    def _of_limit(self, key: TallyKey, limit: LimitInForce) -> dict[str, object]:
        grants = self.grants.get(limit.limit_id, ())
        if limit.nominal_units is None:
            return {"limit_state": "unlimited"}
        is_hoarder = key.username is None and key.project_id is not None
        wide = not key.model_group and key.cluster_id is None
        hoarded = 0
        if is_hoarder and wide and key.project_id is not None:
            hoarded = self.hoarded.get((key.project_id, key.size), 0)
        return {
            "limit_state": "set",
            "set_units": limit.nominal_units - sum(grant.units for grant in grants),
            "grants": grants,
            "hoarded_units": hoarded,
            "exhaustion": self.exhaustions.get(limit.limit_id),
        }

    def _order(self, key: TallyKey) -> tuple[str, int, str, str]:
        cluster = "" if key.cluster_id is None else self.clusters.get(key.cluster_id, "")
        return (key.username or "", list(GPUSize).index(key.size), key.model_group, cluster)


def board_facts(
    organization_ids: Collection[UUID],
    *,
    project_ids: Collection[UUID],
    at: datetime,
    burst_classes: Collection[str],
    thresholds: WasteThresholds,
    has_forecast: bool,
) -> BoardFacts:
    """Return the data of the board of some organizations; a constant number of statements.

    Args:
        organization_ids: The organizations.
        project_ids: Projects that are shown, with their quotas in clusters.
        at: When, UTC.
        burst_classes: Priority classes of preemptible pods.
        thresholds: From when quota is hoarded.
        has_forecast: Whether lines have a forecast of exhaustion.
    """
    limits = limits_in_force(at=at, organization_ids=organization_ids)
    uses = units_now(at=at, organization_ids=organization_ids, burst_classes=burst_classes)
    refusals = refused_lately(at=at, organization_ids=organization_ids)
    return BoardFacts(
        tally=UseByLimit(uses),
        limits={limit.key: limit for limit in limits},
        clusters=_cluster_slugs(),
        grants=_grants(limits, at=at),
        hoarded=_hoarded(organization_ids, at=at, thresholds=thresholds),
        refusals=refusals,
        suspensions=_suspensions(organization_ids, at=at),
        exhaustions=expected_exhaustions(limits, at=at) if has_forecast else {},
        refused=_count_refused(refusals),
        quota_caps=caps_of_projects(project_ids, at=at),
    )


def _refused_key(key: TallyKey) -> tuple[UUID, UUID | None, str | None, GPUSize]:
    return (key.organization_id, key.project_id, key.username, key.size)


def _count_refused(
    refusals: Iterable[Refused],
) -> Counter[tuple[UUID, UUID | None, str | None, GPUSize]]:
    """Count each workload that waits once at its organization, its project and its user."""
    workloads = {
        (one.organization_id, one.project_id, one.username, one.size, one.cluster_id, one.workload)
        for one in refusals
        if one.is_waiting
    }
    counted: Counter[tuple[UUID, UUID | None, str | None, GPUSize]] = Counter()
    for organization_id, project_id, username, size, *_ in workloads:
        counted[organization_id, None, None, size] += 1
        counted[organization_id, project_id, None, size] += 1
        if username:
            counted[organization_id, project_id, username, size] += 1
    return counted


def _cluster_slugs() -> dict[UUID, str]:
    return dict(Cluster.objects.values_list("pk", "slug"))


def _grants(limits: Iterable[LimitInForce], *, at: datetime) -> dict[UUID, tuple[GrantTerm, ...]]:
    found: dict[UUID, tuple[GrantTerm, ...]] = {}
    for term in grant_terms([limit.limit_id for limit in limits], at=at):
        if term.is_in_force(at):
            found[term.limit_id] = (*found.get(term.limit_id, ()), term)
    return found


def _hoarded(
    organization_ids: Collection[UUID], *, at: datetime, thresholds: WasteThresholds
) -> dict[tuple[UUID, GPUSize], int]:
    limits = QuotaLimit.objects.filter(organization_id__in=list(organization_ids))
    return {
        (quota.project_id, quota.size): quota.spare_units
        for quota in hoarded_quotas(limits, at=at, thresholds=thresholds)
    }


def _suspensions(organization_ids: Collection[UUID], *, at: datetime) -> Suspensions:
    rows = QuotaSuspension.objects.filter(
        Q(end_at=None) | Q(end_at__gt=at),
        organization_id__in=list(organization_ids),
        begin_at__lte=at,
    )
    return {
        (organization_id, project_id): reason
        for organization_id, project_id, reason in rows.order_by("-begin_at").values_list(
            "organization_id", "project_id", "reason"
        )
    }
