"""Account changes that need a second person: their kinds and the rules of approval."""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.identity.granting import GRANT_CAPABILITY
from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope


class ChangeKind(StrEnum):
    """What would be changed."""

    ROLE = "role"
    STAFF = "staff"
    FIRST_TOKEN = "first_token"  # noqa: S105 - A kind's name.
    EMAIL = "email"
    USERNAME = "username"
    ACTIVATE = "activate"


class ChangeState(StrEnum):
    """The state of a change; an expired one is marked at the next request for it."""

    OPEN = "open"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"


PLATFORM_ROLES: Final = frozenset(
    role for role, reach in ROLE_SCOPES.items() if reach is RoleScope.PLATFORM
)
"""Their holders reach every organization, so one person alone neither makes nor moves them."""
LIFETIME: Final = timedelta(days=7)
"""From asking to the last moment of the decision, and of the first token that it allows."""
PEOPLE_MIN: Final = 2
"""Platform admins without whom nothing is decided over the web."""
_OWN: Final = frozenset({ChangeKind.FIRST_TOKEN, ChangeKind.EMAIL, ChangeKind.USERNAME})
_RAISING: Final = frozenset(
    {ChangeKind.ROLE, ChangeKind.STAFF, ChangeKind.FIRST_TOKEN, ChangeKind.ACTIVATE}
)


def wanted_label(kind: ChangeKind, value: str) -> str:
    """Return the requested change as text."""
    return {
        ChangeKind.ROLE: f"the role {value.replace('_', ' ')}, which reaches every organization",
        ChangeKind.STAFF: "staff status, with which the admin opens",
        ChangeKind.FIRST_TOKEN: "the first API token since a role of the platform was given",
        ChangeKind.EMAIL: f"another mail address, {value}",
        ChangeKind.USERNAME: f"another user name, {value}",
        ChangeKind.ACTIVATE: "to activate it",
    }[kind]


def needs_second_person(role: Role) -> bool:
    """Whether a role takes two people."""
    return role in PLATFORM_ROLES


def may_ask(actor: Actor, kind: ChangeKind, *, subject: str) -> bool:
    """Whether an actor may request it: platform admins for others, all for their own account.

    Args:
        actor: The caller.
        kind: The kind of change.
        subject: Id of the person it is about.
    """
    if actor.kind is not ActorKind.PERSON:
        return False
    if actor.id == subject:
        return kind in _OWN
    return may_ask_of_others(actor)


def may_ask_of_others(actor: Actor) -> bool:
    """Whether an actor may ask for changes to the accounts of others."""
    return actor.kind is ActorKind.PERSON and actor.may(GRANT_CAPABILITY)


def may_ask_some(actor: Actor, kind: ChangeKind) -> bool:
    """Whether there is an account for which an actor may ask for a kind of change."""
    return may_ask_of_others(actor) or may_ask(actor, kind, subject=actor.id)


def may_approve(actor: Actor, kind: ChangeKind, *, requested_by: str, subject: str) -> bool:
    """Whether an actor is a second person: neither the requester nor the person that gains rights.

    Args:
        actor: The caller.
        kind: The kind of change.
        requested_by: Id of the requester.
        subject: Id of the person it is about.
    """
    if actor.kind is not ActorKind.PERSON or not actor.may(GRANT_CAPABILITY):
        return False
    return actor.id != requested_by and not (kind in _RAISING and actor.id == subject)


def may_decline(actor: Actor, *, requested_by: str, subject: str) -> bool:
    """Whether an actor may decline it: a platform admin, the requester, or the subject."""
    if actor.kind is not ActorKind.PERSON:
        return False
    return actor.id in {requested_by, subject} or actor.may(GRANT_CAPABILITY)
