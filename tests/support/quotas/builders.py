"""Builders of quotas: limits, open allocations and kubeconfigs, made directly."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.models import CapacityRecord, MeteringWindow, PodAllocation
from quotas.models import (
    AdmissionRefusal,
    IsolationPolicy,
    LimitScope,
    QuotaGrant,
    QuotaLimit,
    QuotaRequest,
    Reservation,
)
from quotas.services.requests.asking import RequestDraft, make_request
from tenants.domain.actors import Actor
from tenants.models import Cluster, Organization, Project
from tenants.selectors.actors import actor_of_user
from tests.support.builders import AT, audit_entries


def actor_of(user: User) -> Actor:
    """Return the actor a person is, with the roles held now."""
    return actor_of_user(user)


def submit_request(*, actor: Actor, at: datetime, **fields: Any) -> QuotaRequest:  # noqa: ANN401 - As the draft.
    """Return a request that was made without a source of prices."""
    estimator = fields.pop("estimator", None)
    return make_request(draft=RequestDraft(**fields), estimator=estimator, actor=actor, at=at)


def make_limit(
    organization: Organization,
    project: Project | None = None,
    user: User | None = None,
    *,
    size: str = "large",
    units: int | None = 8,
    **columns: object,
) -> QuotaLimit:
    """Return a limit, saved without asking whether it fits."""
    scope = LimitScope.ORGANIZATION
    if project is not None:
        scope = LimitScope.PROJECT if user is None else LimitScope.USER
    return QuotaLimit.objects.create(
        scope=scope,
        organization=organization,
        project=project,
        user=user,
        size=size,
        limit_units=units,
        created_at=AT,
        changed_at=AT,
        **columns,
    )


def make_grant(
    limit: QuotaLimit,
    units: int,
    begin_at: datetime = AT,
    end_at: datetime | None = None,
    **columns: object,
) -> QuotaGrant:
    """Return a grant, saved without asking whether it fits."""
    defaults: dict[str, object] = {
        "organization": limit.organization,
        "project": limit.project,
        "valid": DateTimeTZRange(begin_at, end_at),
        "reason": "manual",
        "created_at": AT,
    }
    return QuotaGrant.objects.create(limit=limit, units=units, **{**defaults, **columns})


def make_policy(
    organization: Organization,
    project: Project | None = None,
    *,
    modes: tuple[str, ...] = ("whole",),
    **fields: object,
) -> IsolationPolicy:
    """Return an isolation policy, saved as it is."""
    given = {"organization": organization, "project": project, "modes": list(modes), **fields}
    return IsolationPolicy.objects.create(**given, created_at=AT, changed_at=AT)


def hold(
    cluster: Cluster,
    namespace: str,
    *,
    units: int = 1,
    size: str = "large",
    owner: str = "",
    end_at: datetime | None = None,
    priority_class: str = "",
    price_group: str = "H100/whole",
) -> PodAllocation:
    """Return a pod that holds units now, or held them until `end_at`."""
    number = PodAllocation.objects.count()
    return PodAllocation.objects.create(
        cluster=cluster,
        pod_uid=f"uid-{number}",
        resource="nvidia.com/gpu",
        namespace=namespace,
        pod_name=f"pod-{number}",
        node="node-1",
        owner=owner,
        priority_class=priority_class,
        units=units,
        size=size,
        price_group=price_group,
        sharing_mode="whole",
        share_numerator=1,
        share_denominator=1,
        catalogue_version=1,
        begin_at=AT.replace(hour=1),
        end_at=end_at,
        end_kind="open" if end_at is None else "exact",
        last_seen_at=AT,
    )


def see_size(cluster: Cluster, resource: str, size: str, *, at: datetime = AT) -> CapacityRecord:
    """Return what metering saw a node offer in the hour of a time."""
    start = at.replace(minute=0, second=0, microsecond=0)
    window, _ = MeteringWindow.objects.get_or_create(
        cluster=cluster, start_at=start, defaults=window_fields(start)
    )
    return CapacityRecord.objects.create(
        window=window,
        window_start=start,
        cluster=cluster,
        node=f"node-{CapacityRecord.objects.count()}",
        resource=resource,
        size=size,
        allocatable_units=8,
        capacity_unit_seconds=0,
        billed_unit_seconds=0,
        held_unit_seconds=0,
        idle_unit_seconds=0,
    )


def window_fields(start: datetime) -> dict[str, object]:
    """Return what a window needs beside its key."""
    return {"not_before": start}


def audit_actions() -> list[str]:
    """Return the actions in the audit trail, oldest first."""
    return list(audit_entries().order_by("pk").values_list("action", flat=True))


def write_kubeconfig(folder: Path, url: str, token: str = "sesame") -> Path:  # noqa: S107 - Throw-away.
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": url}}],
                "users": [{"name": "it", "user": {"token": token}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            }
        )
    )
    return path


def make_reservation(
    cluster: Cluster, project: Project, username: str = "", *, namespace: str = "llm"
) -> Reservation:
    """Return a pod that was let in and is not bound yet; no counter knows of it."""
    number = Reservation.objects.count()
    return Reservation.objects.create(
        cluster=cluster,
        pod_uid=f"let-in-{number}",
        resource="nvidia.com/gpu",
        namespace=namespace,
        pod_name=f"let-in-{number}",
        organization=project.organization,
        project=project,
        username=username,
        size="large",
        units=1,
        model_groups=["H100"],
        state="reserved",
        origin="admission",
        admitted_at=AT,
    )


def make_refusal(cluster: Cluster, project: Project | None) -> AdmissionRefusal:
    """Return a workload that was refused once."""
    number = AdmissionRefusal.objects.count()
    return AdmissionRefusal.objects.create(
        cluster=cluster,
        namespace="llm" if project is None else project.slug,
        workload=f"Job/train-{number}",
        code="limit_reached",
        size="large",
        units=1,
        organization=None if project is None else project.organization,
        project=project,
        first_at=AT,
        last_at=AT,
    )
