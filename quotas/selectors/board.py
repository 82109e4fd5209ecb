"""The quota board: used against limit as a tree of organizations, projects and their users."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.headroom import Headroom
from quotas.selectors.use import UseRow, use_against_limits
from tenants.models import Organization, Project


@dataclass(frozen=True)
class SizeUse:
    """Used against limit of one size."""

    size: GPUSize
    headroom: Headroom


@dataclass(frozen=True)
class UserUse:
    """What one user holds inside a project; sizes with a limit or with use, small first."""

    username: str
    sizes: tuple[SizeUse, ...]


@dataclass(frozen=True)
class ProjectUse:
    """What a project holds: every size, small first, and its users by name."""

    id: UUID
    slug: str
    name: str
    sizes: tuple[SizeUse, ...]
    users: tuple[UserUse, ...]


@dataclass(frozen=True)
class OrganizationUse:
    """What an organization holds: every size, small first, and its projects by slug."""

    id: UUID
    slug: str
    name: str
    sizes: tuple[SizeUse, ...]
    projects: tuple[ProjectUse, ...]


def quota_board(
    organizations: Sequence[Organization], *, projects: QuerySet[Project], at: datetime
) -> tuple[OrganizationUse, ...]:
    """Return the board of some organizations, in their order; four statements.

    Args:
        organizations: Which ones.
        projects: Those that may be shown.
        at: When, UTC: decides whose a namespace is.
    """
    ids = [organization.pk for organization in organizations]
    rows = use_against_limits(at=at, organization_ids=ids)
    shown = list(projects.filter(organization_id__in=ids).order_by("slug"))
    return tuple(
        OrganizationUse(
            id=organization.pk,
            slug=organization.slug,
            name=organization.name,
            sizes=_every_size(_rows_of(rows, organization.pk, None, None)),
            projects=tuple(
                _project_use(project, rows)
                for project in shown
                if project.organization_id == organization.pk
            ),
        )
        for organization in organizations
    )


def _project_use(project: Project, rows: Iterable[UseRow]) -> ProjectUse:
    own = [row for row in rows if row.key.project_id == project.pk]
    names = sorted({row.key.username for row in own if row.key.username is not None})
    return ProjectUse(
        id=project.pk,
        slug=project.slug,
        name=project.name,
        sizes=_every_size(_rows_of(own, project.organization_id, project.pk, None)),
        users=tuple(
            UserUse(
                username=name,
                sizes=tuple(
                    SizeUse(row.key.size, row.headroom)
                    for row in _rows_of(own, project.organization_id, project.pk, name)
                ),
            )
            for name in names
        ),
    )


def _rows_of(
    rows: Iterable[UseRow], organization_id: UUID, project_id: UUID | None, username: str | None
) -> list[UseRow]:
    wanted = (organization_id, project_id, username)
    return [
        row
        for row in rows
        if (row.key.organization_id, row.key.project_id, row.key.username) == wanted
    ]


def _every_size(rows: Iterable[UseRow]) -> tuple[SizeUse, ...]:
    known = {row.key.size: row.headroom for row in rows}
    nothing = Headroom(limit_units=None, used_units=0)
    return tuple(SizeUse(size, known.get(size, nothing)) for size in GPUSize)
