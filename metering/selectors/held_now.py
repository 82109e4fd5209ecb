"""Held now: open allocations by whose they are, for whoever counts them against something.

Whose a namespace is, is decided by the binding in force; what nobody is bound to is not told.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.gpu_sizes import GPUSize

_BOUND: Final = """
  FROM metering_podallocation a
  JOIN tenants_cluster c ON c.id = a.cluster_id
  JOIN tenants_namespacebinding b
    ON b.cluster_id = a.cluster_id AND b.namespace = a.namespace AND b.valid @> %(at)s
  JOIN tenants_project p ON p.id = b.project_id
  LEFT JOIN auth_user u ON u.id = b.default_owner_id
 WHERE a.end_at IS NULL AND a.size <> '' AND c.admission_mode = ANY(%(modes)s)
   AND p.organization_id = ANY(%(organizations)s)
"""
_COLUMNS: Final = """
SELECT p.organization_id, b.project_id, COALESCE(NULLIF(a.owner, ''), u.username, ''), a.size,
       split_part(a.price_group, '/', 1), a.cluster_id, a.priority_class
"""
_UNITS: Final = f"""
{_COLUMNS}, sum(a.units)::bigint
{_BOUND}
 GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
_PODS: Final = f"""
{_COLUMNS}, a.units, a.begin_at, a.controller
{_BOUND}
   AND a.size = %(size)s
"""


@dataclass(frozen=True)
class Holding:
    """Units of one size held by one owner in one project; owner "" is nobody known."""

    organization_id: UUID
    project_id: UUID
    owner: str
    size: GPUSize
    model_group: str
    cluster_id: UUID
    priority_class: str
    units: int


@dataclass(frozen=True)
class HoldingPod:
    """One pod that holds units, since when, and what controls it as "Kind/name"."""

    holding: Holding
    begin_at: datetime
    controller: str


def holdings_now(
    *, at: datetime, organization_ids: Collection[UUID], admission_modes: Collection[str]
) -> tuple[Holding, ...]:
    """Return what organizations hold in clusters of some admission modes; one statement.

    Args:
        at: When, UTC: decides whose a namespace is.
        organization_ids: Whose.
        admission_modes: Of which clusters, such as ("off",).
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNITS, _given(at, organization_ids, admission_modes))
        return tuple(_holding(*row) for row in cursor.fetchall())


def holding_pods(
    *,
    at: datetime,
    organization_id: UUID,
    size: GPUSize,
    admission_modes: Collection[str],
) -> tuple[HoldingPod, ...]:
    """Return the pods of one organization that hold a size, in no order; one statement."""
    given: dict[str, Any] = {**_given(at, [organization_id], admission_modes), "size": size.value}
    with connection.cursor() as cursor:
        cursor.execute(_PODS, given)
        return tuple(
            HoldingPod(_holding(*row[:8]), begin_at=row[8], controller=row[9])
            for row in cursor.fetchall()
        )


def _given(
    at: datetime, organization_ids: Collection[UUID], admission_modes: Collection[str]
) -> dict[str, Any]:
    return {
        "at": at,
        "organizations": list(organization_ids),
        "modes": list(admission_modes),
    }


def _holding(  # noqa: PLR0913, PLR0917 - A row's columns, in their order.
    organization_id: UUID,
    project_id: UUID,
    owner: str,
    size: str,
    model_group: str,
    cluster_id: UUID,
    priority_class: str,
    units: int,
) -> Holding:
    return Holding(
        organization_id,
        project_id,
        owner,
        GPUSize(size),
        model_group,
        cluster_id,
        priority_class,
        int(units),
    )
