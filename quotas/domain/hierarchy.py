"""The limit tree: how the limits of an organization, its projects and their users fit together.

For each size: the limits of an organization's projects add up to no more than the organization's
own, and a user's limit is no more than that of the project it holds in, or of the organization
where the project has none. A limit that is not set binds nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metering.domain.gpu_sizes import GPUSize
from tenants.domain.errors import FieldProblem


@dataclass(frozen=True)
class LimitTree:
    """The limits one organization has set for one size; what is not set does not stand here.

    Attributes:
        organization_units: None when not set.
        project_units: By project slug.
        user_units: By project slug and user name.
    """

    size: GPUSize
    organization_units: int | None = None
    project_units: Mapping[str, int] = field(default_factory=dict)
    user_units: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def ceiling_of(self, project: str) -> int | None:
        """Return what binds a user of a project from above; None when nothing does."""
        return self.project_units.get(project, self.organization_units)


def find_violations(tree: LimitTree, *, blame: str) -> tuple[FieldProblem, ...]:
    """Return everything that does not fit: the organization first, then users by project and name.

    Args:
        tree: The limits as they would be.
        blame: The input field the caller can change.
    """
    return (*_organization_violations(tree, blame=blame), *_user_violations(tree, blame=blame))


def _organization_violations(tree: LimitTree, *, blame: str) -> tuple[FieldProblem, ...]:
    total_units = sum(tree.project_units.values())
    if tree.organization_units is None or total_units <= tree.organization_units:
        return ()
    over_units = total_units - tree.organization_units
    message = (
        f"The {tree.size.value} limits of the projects would add up to {total_units}, the "
        f"organization's limit is {tree.organization_units}: {over_units} too many."
    )
    return (FieldProblem(field=blame, code="projects_exceed_organization", message=message),)


def _user_violations(tree: LimitTree, *, blame: str) -> tuple[FieldProblem, ...]:
    return tuple(
        _user_violation(tree, project=project, user=user, units=units, blame=blame)
        for (project, user), units in sorted(tree.user_units.items())
        if _exceeds(units, tree.ceiling_of(project))
    )


def _exceeds(units: int, ceiling_units: int | None) -> bool:
    return ceiling_units is not None and units > ceiling_units


def _user_violation(
    tree: LimitTree, *, project: str, user: str, units: int, blame: str
) -> FieldProblem:
    above = "project" if project in tree.project_units else "organization"
    message = (
        f"User {user} would have {units} {tree.size.value} in project {project}, the {above}'s "
        f"limit is {tree.ceiling_of(project)}."
    )
    return FieldProblem(field=blame, code=f"user_exceeds_{above}", message=message)
