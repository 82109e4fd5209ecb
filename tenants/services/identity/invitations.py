"""Invitations: a role offered to a mail address, accepted once by its owner.

The response does not reveal whether the address has an account.
"""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import F

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import FieldProblem
from tenants.domain.identity.granting import exceeds_token, may_give
from tenants.domain.identity.refusals import (
    AddressSharedError,
    InvitationClosedError,
    InvitationOpenError,
    LinkInvalidError,
    MailMissingError,
    UsernameTakenError,
)
from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.domain.notifications import EndpointKind, address_problems
from tenants.domain.refusals import RoleNotYoursToGiveError
from tenants.models import Invitation, Membership, Organization, Project
from tenants.selectors.actors import actor_of_user, digest_of
from tenants.selectors.audit import is_noted_since
from tenants.selectors.locks import lock_rows
from tenants.selectors.people import people_with_address, times_done_since
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row
from tenants.services.identity.memberships import (
    grant_role,
    organization_id_of,
    require_open_scope,
    scope_problems,
)
from tenants.services.identity.people import create_person
from tenants.services.identity.sign_in import count_invitation

LIFETIME: Final = timedelta(days=7)
NAMES_MAX: Final = 5
"""User names tried with one link: more than people need."""
TAKEN_MAX: Final = 10
"""How often in a day the links of one inviter say that a user name is taken."""
TAKEN_SPAN: Final = timedelta(days=1)
NAME_TAKEN: Final = "tenants:user:invited_name_taken"
ENDING_BYTES: Final = 4
USERNAME_MAX: Final = 150
SECRET_BYTES: Final = 32
REFUSED_EVERY: Final = timedelta(hours=1)
"""Between two entries of one link: a page without sign-in must not fill the trail."""


@dataclass(frozen=True)
class IssuedInvitation:
    """A new invitation and the secret of its link, which goes into a mail and nowhere else."""

    invitation: Invitation
    secret: str = field(repr=False)


@transaction.atomic
def invite(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    email: str,
    role: Role,
    organization: Organization | None = None,
    project: Project | None = None,
    is_mail_set_up: bool,
    actor: Actor,
    at: datetime,
) -> IssuedInvitation:
    """Offer a role of an organization or project to a mail address.

    Args:
        email: The address of the future holder.
        role: Which; its reach says what scope must be named.
        organization: The scope of an organization's role.
        project: The scope of a project's role.
        is_mail_set_up: Whether the link can be sent.
        actor: The caller; a person allowed to grant the role there.
        at: When, UTC.

    Raises:
        InvalidInputError: Address and scope do not fit; every problem is listed.
        MailMissingError: No link can be sent.
        RoleNotYoursToGiveError: The actor's own roles, or its token, do not cover it.
        OrganizationClosedError: The organization is closed.
        ProjectClosedError: The project is closed.
        TooManyInvitationsError: The address was invited, or the actor invited, too often.
        InvitationOpenError: The same invitation is open.
    """
    scope = Membership(role=role.value, organization=organization, project=project)
    if not is_mail_set_up:
        raise MailMissingError("No mail server is set up.", field="email")
    secret = secrets.token_urlsafe(SECRET_BYTES)
    invitation = Invitation(
        email=email.lower(),
        role=role.value,
        organization=organization,
        project=project,
        digest=digest_of(secret),
        invited_by_id=_person_id(actor),
        created_at=at,
        expires_at=at + LIFETIME,
    )
    refuse_invalid(invitation, further=_problems(invitation, scope))
    _require_may_invite(actor, scope)
    require_open_scope(scope)
    count_invitation(email=email, actor=actor)
    _same(invitation).filter(expires_at__lte=at).update(withdrawn_at=at)
    add_row(
        row=invitation,
        refusals={
            "invitation_open_once": InvitationOpenError(
                "This address is invited to this role.", field="email"
            )
        },
        actor=actor,
        at=at,
        organization_id=organization_id_of(scope),
        facts=_facts(invitation),
    )
    return IssuedInvitation(invitation=invitation, secret=secret)


def open_invitation(secret: str, *, at: datetime) -> Invitation:
    """Return the invitation of a link.

    Raises:
        LinkInvalidError: No invitation has this link.
        InvitationClosedError: It was accepted or withdrawn, or is too old.
    """
    invitation = (
        Invitation.objects.filter(digest=digest_of(secret))
        .select_related("organization", "project__organization", "invited_by")
        .first()
    )
    if invitation is None:
        raise LinkInvalidError("This link is not valid.", field="link")
    _require_open(invitation, at=at)
    return invitation


def accept_invitation(*, secret: str, username: str, actor: Actor, at: datetime) -> User:
    """Give the role to the account of the address; make one where there is none.

    The link proves the address. What the inviter may give is looked at again.

    Args:
        secret: Of the link.
        username: Of the account to make, or of the one that is meant where several have the
            address. Not looked at when one account has it. Once the inviter's links have said of
            `TAKEN_MAX` names in a day that they are taken, accounts get a name of their own with
            this one as its beginning, whether it is taken or not.
        actor: The service itself, which answers the link.
        at: When, UTC.

    Raises:
        LinkInvalidError: No invitation has this link.
        InvitationClosedError: It was accepted or withdrawn, or is too old, or too many user names
            were tried.
        AddressSharedError: Several accounts have the address, and none of them this name.
        DomainError: What making the account, or giving the role, refuses.
    """
    invitation = _open_or_audited(secret, actor=actor, at=at)
    inviter = actor_of_user(invitation.invited_by)
    _require_may_invite(inviter, _scope_of(invitation))
    known = people_with_address(invitation.email)
    if len(known) != 1:
        _count_name(invitation, actor=actor, at=at)
    if not known and _is_mail_limit_reached(invitation.invited_by, at=at):
        username = _with_ending(username)
    try:
        return _accept(invitation, username, inviter=inviter, actor=actor, at=at)
    except UsernameTakenError:
        if _note_taken(invitation, actor=actor, at=at):
            raise
        username = _with_ending(username)
    return _accept(invitation, username, inviter=inviter, actor=actor, at=at)


def _accept(
    invitation: Invitation, username: str, *, inviter: Actor, actor: Actor, at: datetime
) -> User:
    with transaction.atomic():
        require_open_scope(_scope_of(invitation))
        person = _invited(invitation, username, actor=actor, at=at)
        accepted = (
            Invitation.objects.filter(pk=invitation.pk)
            .filter(accepted_at=None, withdrawn_at=None)
            .update(accepted_at=at, accepted_by=person)
        )
        if not accepted:
            raise InvitationClosedError("This invitation was used.", field="link")
        grant_role(
            role=Role(invitation.role),
            user=person,
            organization=invitation.organization,
            project=invitation.project,
            actor=inviter,
            at=at,
        )
        _record(invitation, "accept", actor=actor, at=at, username=person.get_username())
    return person


@transaction.atomic
def withdraw_invitation(*, invitation: Invitation, actor: Actor, at: datetime) -> Invitation:
    """Take an offer back; its link ends. Twice changes nothing.

    Raises:
        RoleNotYoursToGiveError: The actor's own roles do not cover it.
        InvitationClosedError: It was accepted.
    """
    _require_may_invite(actor, _scope_of(invitation))
    if invitation.withdrawn_at is not None:
        return invitation
    changed = Invitation.objects.filter(
        pk=invitation.pk, accepted_at=None, withdrawn_at=None
    ).update(withdrawn_at=at)
    if not changed:
        raise InvitationClosedError("This invitation was accepted.", field="accepted_at")
    invitation.withdrawn_at = at
    _record(invitation, "withdraw", actor=actor, at=at)
    return invitation


def _open_or_audited(secret: str, *, actor: Actor, at: datetime) -> Invitation:
    """Return the invitation of a link; a link that is refused leaves an audit entry an hour.

    Raises:
        LinkInvalidError: No invitation has this link.
        InvitationClosedError: It was accepted or withdrawn, or is too old.
    """
    try:
        return open_invitation(secret, at=at)
    except InvitationClosedError as refusal:
        spent = Invitation.objects.get(digest=digest_of(secret))
        with transaction.atomic():
            lock_rows(Invitation.objects.filter(pk=spent.pk))
            if not is_noted_since(
                at - REFUSED_EVERY,
                action="tenants:invitation:refuse",
                object_kind="invitation",
                object_id=spent.pk,
            ):
                _record(spent, "refuse", actor=actor, at=at, code=refusal.code)
        raise


def _person_id(actor: Actor) -> int:
    if actor.kind is not ActorKind.PERSON:
        raise RoleNotYoursToGiveError("Only people invite.", field="role")
    return int(actor.id)


def _scope_of(invitation: Invitation) -> Membership:
    return Membership(
        role=invitation.role, organization=invitation.organization, project=invitation.project
    )


def _count_name(invitation: Invitation, *, actor: Actor, at: datetime) -> None:
    """Count an attempt with a user name; beyond the limit the invitation is withdrawn."""
    with transaction.atomic():
        same = Invitation.objects.filter(pk=invitation.pk)
        if same.filter(attempts__lt=NAMES_MAX).update(attempts=F("attempts") + 1):
            return
        if same.filter(accepted_at=None, withdrawn_at=None).update(withdrawn_at=at):
            _record(invitation, "withdraw", actor=actor, at=at, code="too_many_names")
    raise InvitationClosedError("Too many user names were tried.", field="link")


@transaction.atomic
def _note_taken(invitation: Invitation, *, actor: Actor, at: datetime) -> bool:
    """Count that the inviter's links say of one more name that it is taken; False when of enough.

    The inviter reads the mail of addresses of their own, so all their links count together.
    """
    (inviter,) = lock_rows(User.objects.filter(pk=invitation.invited_by_id))
    if _is_mail_limit_reached(inviter, at=at):
        return False
    record(
        actor=actor,
        at=at,
        action=NAME_TAKEN,
        object_kind="user",
        object_id=inviter.pk,
        facts={"username": inviter.get_username(), "invitation": str(invitation.pk)},
    )
    return True


def _is_mail_limit_reached(inviter: User, *, at: datetime) -> bool:
    return times_done_since(inviter, NAME_TAKEN, at - TAKEN_SPAN) >= TAKEN_MAX


def _with_ending(username: str) -> str:
    """Return a free name; an empty one stays empty, and is refused."""
    ending = f"-{secrets.token_hex(ENDING_BYTES)}"
    return username and username[: USERNAME_MAX - len(ending)] + ending


def _invited(invitation: Invitation, username: str, *, actor: Actor, at: datetime) -> User:
    """Return the account of the address; make one where there is none."""
    known = people_with_address(invitation.email)
    if not known:
        return create_person(
            username=username, email=invitation.email, is_mail_set_up=True, actor=actor, at=at
        )
    meant = known if len(known) == 1 else [one for one in known if one.username == username]
    if not meant:
        raise AddressSharedError("Several accounts have this address.", field="username")
    return meant[0]


def _problems(invitation: Invitation, scope: Membership) -> tuple[FieldProblem, ...]:
    wrong = [
        FieldProblem("email", one.code, one.message)
        for one in address_problems(EndpointKind.MAIL, invitation.email, clear_text_hosts=())
    ]
    if ROLE_SCOPES[Role(scope.role)] is RoleScope.PLATFORM:
        message = "No invitation offers a role of the platform."
        wrong.append(FieldProblem("role", "not_by_invitation", message))
    return (*wrong, *scope_problems(scope))


def _require_may_invite(actor: Actor, scope: Membership) -> None:
    role = Role(scope.role)
    allowed = may_give(
        actor,
        role,
        organization_id=organization_id_of(scope),
        project_id=scope.project_id,
        holder=(ActorKind.PERSON, ""),
    )
    if not allowed or exceeds_token(actor, role):
        raise RoleNotYoursToGiveError(f"{role.value} is not yours to offer here.", field="role")


def _require_open(invitation: Invitation, *, at: datetime) -> None:
    if invitation.accepted_at or invitation.withdrawn_at:
        raise InvitationClosedError("This invitation was accepted or withdrawn.", field="link")
    if invitation.expires_at <= at:
        raise InvitationClosedError("This invitation is too old.", field="link")


def _same(invitation: Invitation) -> "models.QuerySet[Invitation]":
    return Invitation.objects.filter(
        email=invitation.email,
        role=invitation.role,
        organization=invitation.organization,
        project=invitation.project,
        accepted_at=None,
        withdrawn_at=None,
    )


def _record(invitation: Invitation, verb: str, *, actor: Actor, at: datetime, **facts: str) -> None:
    project = invitation.project
    record(
        actor=actor,
        at=at,
        action=f"tenants:invitation:{verb}",
        object_kind="invitation",
        object_id=invitation.pk,
        organization_id=(
            invitation.organization_id if project is None else project.organization_id
        ),
        facts={**_facts(invitation), **facts},
    )


def _facts(invitation: Invitation) -> dict[str, str | None]:
    return {
        "role": invitation.role,
        "email": invitation.email,
        "project_id": None if invitation.project_id is None else str(invitation.project_id),
    }
