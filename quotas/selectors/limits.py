"""Limits: read as the tree the rules speak of."""

from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.hierarchy import LimitTree
from quotas.models import QuotaLimit


def limit_tree(*, organization_id: UUID, size: GPUSize) -> LimitTree:
    """Return the limits of one organization for one size, in one statement."""
    rows = QuotaLimit.objects.filter(organization_id=organization_id, size=size).values_list(
        "project__slug", "user__username", "limit_units"
    )
    organization_units: int | None = None
    project_units: dict[str, int] = {}
    user_units: dict[tuple[str, str], int] = {}
    for project, user, units in rows:
        if project is None:
            organization_units = units
        elif user is None:
            project_units[project] = units
        else:
            user_units[project, user] = units
    return LimitTree(
        size=size,
        organization_units=organization_units,
        project_units=project_units,
        user_units=user_units,
    )


def project_limit_units(*, project_id: UUID, size: str) -> int | None:
    """Return a project's limit of one size; None when not set."""
    return (
        QuotaLimit.objects.filter(project_id=project_id, user=None, size=size)
        .values_list("limit_units", flat=True)
        .first()
    )
