"""Facts of preemption: overages, candidates, and due plans.

Every function is a fixed number of statements, however many limits, pods and plans there are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Sum

from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.held import ClaimUser, HeldPod, claim_users, held_pods
from quotas.domain.preemption.choice import Candidate
from quotas.domain.preemption.overage import (
    Allowance,
    Overage,
    PodUnits,
    UnitsSelector,
    overages_of,
)
from quotas.domain.preemption.states import PlanState, StepState
from quotas.models import (
    EnforcementTarget,
    PreemptionAction,
    PreemptionPlan,
    ProtectedWindow,
    Reservation,
    ReservationState,
)
from quotas.selectors.enforcement.targets import UNSETTLED
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force
from tenants.models import Organization, Project
from tenants.models.organization import LifecycleState

CLAIM_PREFIX: Final = "claim/"
"""How the resource of a device claim begins; its uid is the claim's, its pods are others."""
ENDING_FOR: Final = timedelta(hours=1)
"""How long a pod counts as ending after the cluster's answer, while the ledger still has it."""
_LIVE: Final = (ReservationState.RESERVED, ReservationState.HELD)


@dataclass(frozen=True)
class Picture:
    """State of one organization at one time.

    Attributes:
        overages: Every cap that is exceeded, ending pods counted.
        candidates: Every pod that holds units or waits for them.
    """

    allowances: tuple[Allowance, ...]
    overages: tuple[Overage, ...]
    candidates: tuple[Candidate, ...]

    @property
    def holdings(self) -> tuple[PodUnits, ...]:
        """Return all that is held."""
        return tuple(one for pod in self.candidates for one in pod.holdings)


def picture_of(*, organization_id: UUID, at: datetime) -> Picture:
    """Return what an organization holds, and where that is more than its limits allow."""
    limits = limits_in_force(at=at, organization_ids=[organization_id])
    allowances = _allowances(limits)
    candidates = _candidates(organization_id, at=at)
    holdings = [one for pod in candidates for one in pod.holdings]
    return Picture(allowances, overages_of(allowances, holdings), candidates)


def overages_everywhere(*, at: datetime) -> Mapping[UUID, tuple[Overage, ...]]:
    """Return the organizations that hold more than their limits allow, with all that is over."""
    limits: dict[UUID, list[LimitInForce]] = defaultdict(list)
    for limit in limits_in_force(at=at):
        limits[limit.organization_id].append(limit)
    names = _slugs(limit for held in limits.values() for limit in held)
    sums = _sums_held()
    found = {
        organization_id: overages_of(
            tuple(_allowance(limit, names) for limit in held), sums.get(organization_id, ())
        )
        for organization_id, held in limits.items()
    }
    return {organization_id: over for organization_id, over in found.items() if over}


def unapplied_targets(*, organization_id: UUID) -> tuple[EnforcementTarget, ...]:
    """Return an organization's namespaces whose quota is not yet read back from the cluster.

    Clusters that are only metered hold no quota, so nothing is waited for there.
    """
    rows = EnforcementTarget.objects.filter(
        UNSETTLED,
        project__organization_id=organization_id,
        cluster__state=LifecycleState.ACTIVE,
    )
    enforced = rows.exclude(cluster__kubernetes_url="").exclude(cluster__credential_reference="")
    return tuple(enforced.select_related("cluster").order_by("cluster__slug", "namespace"))


def due_plan_ids(*, at: datetime) -> list[UUID]:
    """Return running plans whose next step is due, longest due first."""
    rows = PreemptionPlan.objects.filter(state=PlanState.RUNNING.value, not_before__lte=at)
    return list(rows.order_by("not_before", "pk").values_list("pk", flat=True))


def steps_of(plan: PreemptionPlan) -> list[PreemptionAction]:
    """Return a plan's steps in the order of going."""
    rows = PreemptionAction.objects.filter(plan=plan).select_related("cluster")
    return list(rows.order_by("victim", "pod_name", "pk"))


def _allowances(limits: Iterable[LimitInForce]) -> tuple[Allowance, ...]:
    known = tuple(limits)
    names = _slugs(known)
    return tuple(_allowance(limit, names) for limit in known)


def _allowance(limit: LimitInForce, names: Mapping[UUID, str]) -> Allowance:
    project = "" if limit.project_id is None else str(limit.project_id)
    selector = UnitsSelector(
        size=limit.size,
        project=project,
        username=limit.username or "",
        model_group=limit.model_group,
        cluster="" if limit.cluster_id is None else str(limit.cluster_id),
    )
    return Allowance(
        limit_id=str(limit.limit_id),
        holder=_holder(limit, names),
        selector=selector,
        nominal_units=limit.nominal_units,
        burst_units=limit.burst_units,
    )


def _holder(limit: LimitInForce, names: Mapping[UUID, str]) -> str:
    """Return the holder of the limit as text."""
    if limit.project_id is None:
        return f"organization {names[limit.organization_id]}"
    project = f"project {names[limit.project_id]}"
    return f"{limit.username} in {project}" if limit.username else project


def _slugs(limits: Iterable[LimitInForce]) -> dict[UUID, str]:
    known = tuple(limits)
    wanted = {limit.organization_id for limit in known}
    organizations = Organization.objects.filter(pk__in=wanted).values_list("pk", "slug")
    projects = Project.objects.filter(
        pk__in={limit.project_id for limit in known if limit.project_id is not None}
    ).values_list("pk", "slug")
    return {**dict(organizations), **dict(projects)}


def _sums_held() -> Mapping[UUID, tuple[PodUnits, ...]]:
    sums: dict[UUID, list[PodUnits]] = defaultdict(list)
    rows = Reservation.objects.filter(state=ReservationState.HELD).values(
        "organization_id",
        "project_id",
        "username",
        "cluster_id",
        "size",
        "model_groups",
        "is_burst",
    )
    for row in rows.annotate(held=Sum("units")).order_by("organization_id"):
        sums[row["organization_id"]].append(_holding(row, units=row["held"]))
    return {organization_id: tuple(held) for organization_id, held in sums.items()}


def _holding(row: Mapping[str, Any], *, units: int) -> PodUnits:
    return PodUnits(
        size=GPUSize(row["size"]),
        units=units,
        project=str(row["project_id"]),
        username=row["username"],
        cluster=str(row["cluster_id"]),
        model_groups=frozenset(row["model_groups"]),
        is_burst=row["is_burst"],
    )


def _candidates(organization_id: UUID, *, at: datetime) -> tuple[Candidate, ...]:
    rows = tuple(
        Reservation.objects.filter(organization_id=organization_id, state__in=_LIVE)
        .order_by("cluster_id", "namespace", "pod_name", "pk")
        .values()
    )
    users = claim_users({row["pod_uid"] for row in rows if _is_claim(row)})
    using = {user.pod_uid for found in users.values() for user in found}
    known = held_pods({row["pod_uid"] for row in rows} | using)
    makers = _makers(using)
    windows = _windows(organization_id, at=at)
    ending = _ending_uids(organization_id, at=at)
    pods: dict[tuple[UUID, str], Candidate] = {}
    for row in rows:
        for candidate in _candidates_of_row(row, known=known, users=users, makers=makers):
            key = row["cluster_id"], candidate.pod_uid
            before = pods.get(key)
            together = candidate if before is None else _merged(before, candidate)
            protection = windows.get(row["project_id"]) or windows.get(None, "")
            is_ending = together.is_ending or candidate.pod_uid in ending
            pods[key] = replace(together, protection=protection, is_ending=is_ending)
    return tuple(pods.values())


def _merged(before: Candidate, other: Candidate) -> Candidate:
    """Return one pod that holds several resources."""
    return replace(
        before,
        holdings=(*before.holdings, *other.holdings),
        controller=before.controller or other.controller,
        claims=before.claims | other.claims,
    )


def _makers(uids: Iterable[str]) -> Mapping[tuple[UUID, str], str]:
    """Return the controllers of pods from admission, also of reservations handed over since.

    A pod that uses only device claims has no allocation with its controller.
    """
    rows = Reservation.objects.filter(pod_uid__in=list(uids)).exclude(controller="").order_by("pk")
    return {
        (cluster_id, pod_uid): controller
        for cluster_id, pod_uid, controller in rows.values_list(
            "cluster_id", "pod_uid", "controller"
        )
    }


def _is_claim(row: Mapping[str, Any]) -> bool:
    is_bound = row["state"] == ReservationState.HELD
    return is_bound and str(row["resource"]).startswith(CLAIM_PREFIX)


def _candidates_of_row(
    row: Mapping[str, Any],
    *,
    known: Mapping[tuple[UUID, str], HeldPod],
    users: Mapping[tuple[UUID, str], tuple[ClaimUser, ...]],
    makers: Mapping[tuple[UUID, str], str],
) -> Iterable[Candidate]:
    """Return the pod of a reservation; of a device claim the pods that use it.

    Each of them keeps its own controller, priority and end; the claim joins them.
    """
    pod = _candidate(row, known.get((row["cluster_id"], row["pod_uid"])))
    if not _is_claim(row):
        yield pod
        return
    for place, user in enumerate(users.get((row["cluster_id"], row["pod_uid"]), ())):
        key = row["cluster_id"], user.pod_uid
        fact = known.get(key)
        yield replace(
            pod,
            pod_uid=user.pod_uid,
            pod_name=user.pod_name,
            controller=makers.get(key, "") or (fact.controller if fact else ""),
            priority_class=fact.priority_class if fact else "",
            priority=(fact.priority if fact else None) or 0,
            is_ending=fact is not None and fact.is_ending,
            claims=frozenset({row["pod_name"]}),
            # The claim is held once, however many pods share it.
            holdings=pod.holdings if place == 0 else (),
        )


def _candidate(row: Mapping[str, Any], fact: HeldPod | None) -> Candidate:
    is_held = row["state"] == ReservationState.HELD
    return Candidate(
        cluster=str(row["cluster_id"]),
        namespace=row["namespace"],
        pod_name=row["pod_name"],
        pod_uid=row["pod_uid"],
        controller=row["controller"] or (fact.controller if fact else ""),
        priority_class=fact.priority_class if fact else "",
        priority=(fact.priority if fact else None) or 0,
        began_at=(fact.began_at if fact else None) or row["held_at"] or row["admitted_at"],
        holdings=(_holding(row, units=row["units"]),) if is_held else (),
        is_ending=fact is not None and fact.is_ending,
        project=str(row["project_id"]),
        username=row["username"],
    )


def _windows(organization_id: UUID, *, at: datetime) -> dict[UUID | None, str]:
    """Return why what is protected now is, by project; None for the whole organization."""
    rows = ProtectedWindow.objects.filter(
        organization_id=organization_id, valid__contains=at, cancelled_at=None
    )
    return {row.project_id: f"in a protected window ({row.reason})" for row in rows.order_by("pk")}


def _ending_uids(organization_id: UUID, *, at: datetime) -> frozenset[str]:
    """Return pods whose end a cluster recently accepted or reported; the ledger lags."""
    rows = PreemptionAction.objects.filter(
        plan__organization_id=organization_id,
        state__in=(StepState.STARTED.value, StepState.FREED.value),
        acted_at__gt=at - ENDING_FOR,
    )
    return frozenset(rows.values_list("pod_uid", flat=True))
