"""Builders of preemption: pods that hold units, plans and their steps, saved directly."""

from datetime import datetime, timedelta
from typing import Any

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.models import PodAllocation
from quotas.models import (
    PreemptionAction,
    PreemptionPlan,
    ProtectedWindow,
    Reservation,
    ReservationState,
)
from tenants.models import Cluster, Organization, Project
from tests.support.builders import AT


def admit(
    cluster: Cluster,
    project: Project,
    name: str,
    *,
    units: int = 1,
    size: str = "large",
    username: str = "carol",
    controller: str = "",
    is_burst: bool = False,
    is_bound: bool = True,
    priority: int = 0,
    priority_class: str = "",
    age_minutes: int = 60,
    uid: str = "",
) -> Reservation:
    """Return a pod that was admitted, and by default runs: its reservation and its allocation."""
    began_at = AT - timedelta(minutes=age_minutes)
    pod_uid = uid or f"uid-{name}"
    if is_bound:
        PodAllocation.objects.create(
            cluster=cluster,
            pod_uid=pod_uid,
            resource="nvidia.com/gpu",
            namespace=project.slug,
            pod_name=name,
            node="node-1",
            owner=username,
            priority=priority,
            priority_class=priority_class,
            controller=controller,
            units=units,
            size=size,
            price_group="H100/whole",
            sharing_mode="whole",
            catalogue_version=1,
            begin_at=began_at,
            last_seen_at=AT,
        )
    return Reservation.objects.create(
        cluster=cluster,
        pod_uid=pod_uid,
        resource="nvidia.com/gpu",
        namespace=project.slug,
        pod_name=name,
        controller=controller,
        organization_id=project.organization_id,
        project=project,
        username=username,
        size=size,
        units=units,
        model_groups=["H100"],
        is_burst=is_burst,
        state=ReservationState.HELD if is_bound else ReservationState.RESERVED,
        origin="admission",
        admitted_at=began_at,
        held_at=began_at if is_bound else None,
    )


def let_go(reservation: Reservation, *, at: datetime = AT) -> None:
    """Let a pod be gone, as the watch and the sweep tell it."""
    Reservation.objects.filter(pk=reservation.pk).update(
        state=ReservationState.RELEASED, released_at=at, release_reason="ended"
    )
    PodAllocation.objects.filter(pod_uid=reservation.pod_uid).update(end_at=at, end_kind="exact")


def make_plan(organization: Organization, **fields: Any) -> PreemptionPlan:  # noqa: ANN401
    """Return a plan that nobody has executed."""
    defaults: dict[str, Any] = {
        "reason": "over_limit",
        "planned_by": "frank",
        "created_at": AT,
        "expires_at": AT + timedelta(hours=1),
    }
    return PreemptionPlan.objects.create(organization=organization, **{**defaults, **fields})


def make_step(plan: PreemptionPlan, pod: Reservation, **fields: Any) -> PreemptionAction:  # noqa: ANN401
    """Return the step of a plan about a pod."""
    defaults: dict[str, Any] = {
        "victim": 0,
        "units": {pod.size: pod.units},
        "started_at": pod.admitted_at,
        "reason": "It is the newest.",
        "step": "evict",
    }
    return PreemptionAction.objects.create(
        plan=plan,
        cluster=pod.cluster,
        namespace=pod.namespace,
        pod_name=pod.pod_name,
        pod_uid=pod.pod_uid,
        controller=pod.controller,
        project=pod.project,
        username=pod.username,
        **{**defaults, **fields},
    )


def protect(
    organization: Organization,
    project: Project | None = None,
    *,
    begin_at: datetime = AT - timedelta(hours=1),
    end_at: datetime = AT + timedelta(hours=1),
) -> ProtectedWindow:
    """Return a protected window about now."""
    return ProtectedWindow.objects.create(
        organization=organization,
        project=project,
        valid=DateTimeTZRange(begin_at, end_at),
        reason="release",
        created_by="frank",
        created_at=AT,
    )
