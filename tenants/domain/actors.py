"""Actors: people, service accounts and the system. Every write and audit entry has one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from tenants.domain.identity.roles import CAPABILITIES, Role


class ActorKind(StrEnum):
    """What sort of actor it is."""

    PERSON = "person"
    SERVICE_ACCOUNT = "service_account"
    SYSTEM = "system"


@dataclass(frozen=True)
class Grant:
    """One role within one scope; both ids are None for a platform role."""

    role: Role
    organization_id: UUID | None = None
    project_id: UUID | None = None


@dataclass(frozen=True)
class Actor:
    """A person, service account or system component, with its grants at the request.

    Attributes:
        id: The user's or service account's primary key as text; the name of a system actor.
        label: What people read: a user name, an account's name.
        scopes: Capabilities a token was limited to; None when not limited.
        ends_at: When the token that it calls with ends; None without a token.
    """

    kind: ActorKind
    id: str
    label: str
    grants: tuple[Grant, ...] = ()
    scopes: frozenset[str] | None = field(default=None)
    ends_at: datetime | None = None

    @property
    def is_system(self) -> bool:
        """Whether this is the service itself, which may do everything."""
        return self.kind is ActorKind.SYSTEM

    @property
    def person_id(self) -> int | None:
        """Return the acting person's id; None for the system and for tokens."""
        return int(self.id) if self.kind is ActorKind.PERSON else None

    def grants_for(self, capability: str) -> tuple[Grant, ...]:
        """Return the grants that carry a capability, in the order of granting."""
        if self.scopes is not None and capability not in self.scopes:
            return ()
        return tuple(g for g in self.grants if capability in CAPABILITIES[g.role])

    def may(
        self,
        capability: str,
        *,
        organization_id: UUID | None = None,
        project_id: UUID | None = None,
    ) -> bool:
        """Whether the actor holds a capability over an organization or one of its projects.

        Args:
            capability: `<app>:<resource>:<action>`.
            organization_id: The organization the object belongs to; None for platform objects.
            project_id: The project, when the object belongs to one.
        """
        if self.is_system:
            return True
        return any(
            _covers(grant, organization_id=organization_id, project_id=project_id)
            for grant in self.grants_for(capability)
        )


def _covers(grant: Grant, *, organization_id: UUID | None, project_id: UUID | None) -> bool:
    if grant.organization_id is None and grant.project_id is None:
        return True
    if grant.project_id is not None:
        return project_id is not None and grant.project_id == project_id
    return organization_id is not None and grant.organization_id == organization_id


def system_actor(name: str) -> Actor:
    """Return the service itself under the name of what it is doing, such as "metering.tick"."""
    return Actor(kind=ActorKind.SYSTEM, id=name, label=name)


def limit_scopes(capabilities: Iterable[str]) -> frozenset[str]:
    """Return token scopes as the actor keeps them."""
    return frozenset(capabilities)
