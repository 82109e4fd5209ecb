"""The quota board: use against limits, as a tree down to the users.

Numbers come from `units_now`: reservations where a cluster admits, open allocations elsewhere.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from quotas.domain.headroom.headroom import Headroom
from quotas.domain.limits.tally import TallyKey
from quotas.selectors.admission.refusals import Refused
from quotas.selectors.headroom.board_lines import BoardFacts, BoardLine, board_facts
from tenants.models import Organization, Project


@dataclass(frozen=True)
class UserUsage:
    """What one user holds inside a project; lines with a limit or with use, small first."""

    username: str
    lines: tuple[BoardLine, ...]


@dataclass(frozen=True)
class ProjectUsage:
    """What a project holds.

    Attributes:
        sizes: Every size for all models and clusters, small first.
        more_specific_sizes: Limits of one model or one cluster, small first.
        users: By name.
        refusals: What admission turned away in the last day, newest first.
        suspension: Why it may start nothing; None when it may. An organization's counts here too.
    """

    id: UUID
    slug: str
    name: str
    sizes: tuple[BoardLine, ...]
    more_specific_sizes: tuple[BoardLine, ...]
    users: tuple[UserUsage, ...]
    refusals: tuple[Refused, ...]
    suspension: str | None

    @property
    def lines(self) -> tuple[BoardLine, ...]:
        """Return every line of the project itself."""
        return (*self.sizes, *self.more_specific_sizes)


@dataclass(frozen=True)
class OrganizationUsage:
    """What an organization holds, its projects by slug; otherwise like a project's."""

    id: UUID
    slug: str
    name: str
    sizes: tuple[BoardLine, ...]
    more_specific_sizes: tuple[BoardLine, ...]
    projects: tuple[ProjectUsage, ...]
    suspension: str | None

    @property
    def lines(self) -> tuple[BoardLine, ...]:
        """Return every line of the organization itself."""
        return (*self.sizes, *self.more_specific_sizes)


def quota_board(
    organizations: Sequence[Organization],
    *,
    projects: QuerySet[Project],
    at: datetime,
    burst_classes: Collection[str],
    thresholds: WasteThresholds,
    has_forecast: bool = False,
) -> tuple[OrganizationUsage, ...]:
    """Return the board of some organizations, in their order; the statements are constant.

    Args:
        organizations: Which ones.
        projects: Those that may be shown.
        at: When, UTC: decides which bindings and limits are in force.
        burst_classes: Priority classes of preemptible pods.
        thresholds: From when quota is hoarded.
        has_forecast: Whether lines have a forecast of exhaustion.
    """
    ids = [organization.pk for organization in organizations]
    shown = list(projects.filter(organization_id__in=ids).order_by("slug"))
    facts = board_facts(
        ids,
        project_ids=[project.pk for project in shown],
        at=at,
        burst_classes=burst_classes,
        thresholds=thresholds,
        has_forecast=has_forecast,
    )
    return tuple(
        _organization_use(
            organization, [one for one in shown if one.organization_id == organization.pk], facts
        )
        for organization in organizations
    )


def _organization_use(
    organization: Organization, projects: Iterable[Project], facts: BoardFacts
) -> OrganizationUsage:
    keys = facts.keys_of(organization.pk, None)
    return OrganizationUsage(
        id=organization.pk,
        slug=organization.slug,
        name=organization.name,
        sizes=_every_size(keys, facts),
        more_specific_sizes=_more_specific_sizes(keys, facts),
        projects=tuple(_project_use(project, facts) for project in projects),
        suspension=facts.suspensions.get((organization.pk, None)),
    )


def _project_use(project: Project, facts: BoardFacts) -> ProjectUsage:
    keys = facts.keys_of(project.organization_id, project.pk)
    own = [key for key in keys if key.username is None]
    of_organization = facts.suspensions.get((project.organization_id, None))
    return ProjectUsage(
        id=project.pk,
        slug=project.slug,
        name=project.name,
        sizes=_every_size(own, facts),
        more_specific_sizes=_more_specific_sizes(own, facts),
        users=_users([key for key in keys if key.username is not None], facts),
        refusals=tuple(one for one in facts.refusals if one.project_id == project.pk),
        suspension=facts.suspensions.get((project.organization_id, project.pk), of_organization),
    )


def _users(keys: Sequence[TallyKey], facts: BoardFacts) -> tuple[UserUsage, ...]:
    names = sorted({key.username for key in keys if key.username is not None})
    return tuple(
        UserUsage(
            username=name,
            lines=tuple(facts.line(key) for key in keys if key.username == name),
        )
        for name in names
    )


def _every_size(keys: Iterable[TallyKey], facts: BoardFacts) -> tuple[BoardLine, ...]:
    known = {key.size: facts.line(key) for key in keys if _is_wide(key)}
    nothing = Headroom(limit_units=None, used_units=0)
    return tuple(known.get(size, BoardLine(size, nothing)) for size in GPUSize)


def _more_specific_sizes(keys: Iterable[TallyKey], facts: BoardFacts) -> tuple[BoardLine, ...]:
    return tuple(facts.line(key) for key in keys if not _is_wide(key))


def _is_wide(key: TallyKey) -> bool:
    return not key.model_group and key.cluster_id is None


@dataclass(frozen=True)
class BoardSummary:
    """Totals that need attention first.

    Attributes:
        over_limits: Limits of which more is taken than is in force.
        waiting_workloads: Denied for lack of free units within two hours, and not admitted since.
        hoarded_units: Units that projects reserve but do not use, of all sizes.
        suspended_projects: Projects that may start nothing.
    """

    over_limits: int
    waiting_workloads: int
    hoarded_units: int
    suspended_projects: int


def board_summary(board: Iterable[OrganizationUsage]) -> BoardSummary:
    """Return the totals of a board."""
    organizations = list(board)
    projects = [project for one in organizations for project in one.projects]
    users = [user for project in projects for user in project.users]
    holders: list[OrganizationUsage | ProjectUsage | UserUsage] = [
        *organizations,
        *projects,
        *users,
    ]
    lines = [line for holder in holders for line in holder.lines]
    return BoardSummary(
        over_limits=sum(line.headroom.over_units > 0 for line in lines),
        waiting_workloads=sum(line.refused for project in projects for line in project.sizes),
        hoarded_units=sum(line.hoarded_units for line in lines),
        suspended_projects=sum(project.suspension is not None for project in projects),
    )
