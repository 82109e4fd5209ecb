"""Holders: whom a limit binds, and who may write their limits."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User

from quotas.domain.errors import QuotaScopeError
from quotas.models import LimitScope
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.models import Organization, Project

WRITE: Final = "quotas:limit:write"


@dataclass(frozen=True)
class Holder:
    """Whom a limit binds: an organization, a project of it, or a user inside a project."""

    organization: Organization
    project: Project | None = None
    user: User | None = None

    @property
    def scope(self) -> LimitScope:
        """The scope the holder stands for."""
        if self.user is not None:
            return LimitScope.USER
        return LimitScope.ORGANIZATION if self.project is None else LimitScope.PROJECT

    @property
    def project_id(self) -> UUID | None:
        """The project's id; None for an organization."""
        return None if self.project is None else self.project.pk


def holder_of(
    *, scope: str, organization: Organization, project: Project | None, user: User | None
) -> Holder:
    """Return whom a limit would bind.

    Raises:
        QuotaScopeError: The scope does not fit what is named, or the project is another's.
    """
    holder = Holder(organization, project, user)
    if scope != holder.scope or (user is not None and project is None):
        raise QuotaScopeError(
            f"A limit of scope {scope} does not fit what is named.", field="scope"
        )
    if project is not None and project.organization_id != organization.pk:
        raise QuotaScopeError("The project belongs to another organization.", field="project")
    return holder


def require_write(*, holder: Holder, actor: Actor) -> None:
    """Refuse an actor who may not write a holder's limits.

    Raises:
        ForbiddenError: Nobody raises their own ceiling: an organization's limit takes a role of
            the platform, everything below it a role over the organization.
    """
    if holder.project is None:
        require_capability(actor, WRITE)
    else:
        require_capability(
            actor,
            WRITE,
            organization_id=holder.organization.pk,
            project_id=holder.project.pk,
        )
