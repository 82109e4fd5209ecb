"""Builders of fair use: reservations, refusals, grants, suspensions and hours of use."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.models import PodAllocation
from quotas.models import (
    AdmissionRefusal,
    GrantReason,
    QuotaGrant,
    QuotaLimit,
    QuotaSuspension,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from tenants.models import Cluster, Organization, Project
from tests.support.billing.ledger import Use, sealed_window
from tests.support.builders import AT

_NUMBERS = count()
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def reserve(cluster: Cluster, project: Project, *, units: int = 1, **fields: Any) -> Reservation:  # noqa: ANN401 - Columns.
    """Return a pod that admission let in and that is bound, unless set otherwise."""
    state = fields.pop("state", ReservationState.HELD)
    defaults: dict[str, Any] = {
        "pod_uid": f"reserved-{next(_NUMBERS)}",
        "resource": "nvidia.com/gpu",
        "namespace": project.slug,
        "pod_name": "pod",
        "size": "large",
        "model_groups": ["H100"],
        "origin": ReservationOrigin.ADMISSION,
        "admitted_at": AT - HOUR,
        "held_at": AT - HOUR if state == ReservationState.HELD else None,
        "released_at": AT if state == ReservationState.RELEASED else None,
    }
    return Reservation.objects.create(
        cluster=cluster,
        organization=project.organization,
        project=project,
        units=units,
        state=state,
        **{**defaults, **fields},
    )


def refuse(
    cluster: Cluster,
    project: Project,
    *,
    units: int = 1,
    **fields: Any,  # noqa: ANN401 - Columns.
) -> AdmissionRefusal:
    """Return a workload that admission refused for want of room an hour ago."""
    defaults: dict[str, Any] = {
        "namespace": project.slug,
        "workload": f"Job/refused-{next(_NUMBERS)}",
        "code": "limit_reached",
        "size": "large",
        "first_at": AT - 2 * DAY,
        "last_at": AT - HOUR,
    }
    return AdmissionRefusal.objects.create(
        cluster=cluster,
        organization=project.organization,
        project=project,
        units=units,
        **{**defaults, **fields},
    )


def give(
    limit: QuotaLimit,
    units: int,
    *,
    begin_at: datetime = AT - HOUR,
    end_at: datetime | None = AT + DAY,
    reason: GrantReason = GrantReason.REQUEST,
) -> QuotaGrant:
    """Return a grant on top of a limit, saved without asking whether it fits."""
    return QuotaGrant.objects.create(
        limit=limit,
        organization=limit.organization,
        project=limit.project,
        units=units,
        valid=DateTimeTZRange(begin_at, end_at),
        reason=reason,
        created_at=AT,
    )


def suspend(organization: Organization, project: Project | None = None) -> QuotaSuspension:
    """Return an open suspension."""
    return QuotaSuspension.objects.create(
        organization=organization, project=project, reason="Arrears.", begin_at=AT - DAY
    )


def use_daily(cluster: Cluster, peaks: Mapping[Project, list[int]], *, size: str = "large") -> None:
    """Write an hour of use on each of the days before `AT`, the last one yesterday."""
    for back in range(1, max(map(len, peaks.values())) + 1):
        uses = [
            Use(project, 3600, size=size, price_group="H100/whole")
            for project, units in peaks.items()
            for _ in range(units[-back] if back <= len(units) else 0)
        ]
        sealed_window(cluster, uses, start_at=(AT - back * DAY).replace(hour=3))


def run(cluster: Cluster, project: Project, **fields: Any) -> PodAllocation:  # noqa: ANN401 - Columns.
    """Return a pod that has held a large unit for an hour and still does, unless set otherwise."""
    number = next(_NUMBERS)
    defaults: dict[str, Any] = {
        "pod_uid": f"run-{number}",
        "pod_name": f"run-{number}",
        "resource": "nvidia.com/gpu",
        "namespace": project.slug,
        "node": "node-1",
        "project": project,
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": "whole",
        "catalogue_version": 1,
        "begin_at": AT - HOUR,
        "last_seen_at": AT,
        "end_kind": "open" if fields.get("end_at") is None else "exact",
    }
    return PodAllocation.objects.create(cluster=cluster, **{**defaults, **fields})


def has_run(cluster: Cluster, project: Project, hours: list[int], *, kind: str = "Job") -> None:
    """Write pods of a project that ended yesterday after so many hours."""
    for number, hour in enumerate(hours):
        run(
            cluster,
            project,
            controller=f"{kind}/train-{number}",
            begin_at=AT - DAY - hour * HOUR,
            end_at=AT - DAY,
        )
