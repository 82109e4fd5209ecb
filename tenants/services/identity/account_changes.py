"""Account changes that need a second person: requested, approved, declined.

Refusals are audited too, in their own transaction: they show attempts to decide alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import DomainError, FieldProblem
from tenants.domain.identity.account_changes import (
    LIFETIME,
    PEOPLE_MIN,
    PLATFORM_ROLES,
    ChangeKind,
    ChangeState,
    may_approve,
    may_ask,
    may_decline,
    wanted_label,
)
from tenants.domain.identity.refusals import (
    ChangeAskedError,
    ChangeDecidedError,
    ChangeExpiredError,
    ChangeNeedlessError,
    ChangeNotYoursError,
    ChangeOutdatedError,
    SecondPersonMissingError,
)
from tenants.domain.identity.roles import Role
from tenants.domain.notifications import EndpointKind, address_problems
from tenants.models import AccountChange
from tenants.selectors.actors import actor_of_user
from tenants.selectors.audit import is_noted_since
from tenants.selectors.locks import lock_rows
from tenants.selectors.people import has_first_token, holds_platform_role, platform_admins
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row
from tenants.services.identity.memberships import grant_platform_role
from tenants.services.identity.people import name_problems, write_active, write_person
from tenants.services.notifications.outbox import notify

REFUSED_EVERY: Final = timedelta(hours=1)
"""Between two entries of one link: a page without sign-in must not fill the trail."""


def ask_change(
    *,
    kind: ChangeKind,
    subject: User,
    value: str = "",
    is_mail_set_up: bool,
    actor: Actor,
    at: datetime,
) -> AccountChange:
    """Request a change to a person's account; platform admins get a mail.

    Args:
        kind: The kind of change.
        subject: The owner of the account.
        value: The role, the new address or the new name; "" for the other kinds.
        is_mail_set_up: Whether mails can be sent.
        actor: The caller.
        at: When, UTC.

    Raises:
        InvalidInputError: The value does not fit the kind; every problem is listed.
        ChangeNotYoursError: The actor may not request this.
        SecondPersonMissingError: There are fewer than two platform admins, or there is no mail.
        ChangeNeedlessError: The account already has this value.
        ChangeAskedError: The same request is open.
    """
    change = AccountChange(
        kind=kind.value,
        subject=subject,
        value=value,
        email=subject.email,
        username=subject.get_username(),
        requested_by_id=_person_id(actor),
        requested_at=at,
        expires_at=at + LIFETIME,
    )
    with _audited_refusal(change, actor=actor, at=at), transaction.atomic():
        refuse_invalid(change, further=_value_problems(kind, value))
        if not may_ask(actor, kind, subject=str(subject.pk)):
            raise ChangeNotYoursError("This is not yours to ask for.", field="subject")
        if not is_mail_set_up or platform_admins().count() < PEOPLE_MIN:
            raise SecondPersonMissingError(
                "This takes two platform admins and a mail server.", field="kind"
            )
        _require_sense(change)
        _add(change, actor=actor, at=at)
    return change


def approve_change(*, change_id: UUID, actor: Actor, at: datetime) -> AccountChange:
    """Apply a change that another person requested.

    Raises:
        ChangeNotYoursError: The actor requested it, gains rights by it, or is no platform admin.
        ChangeDecidedError: It was decided before.
        ChangeExpiredError: It was not decided in time.
        ChangeOutdatedError: The person's address or user name is another one by now, or the asker
            may not ask any more.
        DomainError: What the change itself refuses.
    """
    change = AccountChange.objects.select_related("subject", "requested_by").get(pk=change_id)
    with _audited_refusal(change, actor=actor, at=at), transaction.atomic():
        if not may_approve(
            actor,
            ChangeKind(change.kind),
            requested_by=str(change.requested_by_id),
            subject=str(change.subject_id),
        ):
            raise ChangeNotYoursError("This is not yours to approve.", field="decided_by")
        return _approve(change, by="second_person", actor=actor, at=at)


def confirm_address(*, change_id: UUID, email: str, actor: Actor, at: datetime) -> AccountChange:
    """Apply a change of address that its old address confirmed by the link sent there.

    Args:
        change_id: The change that the link confirms.
        email: The address it was sent to.
        actor: The person of the link, without any role.
        at: When, UTC.

    Raises:
        ChangeDecidedError: It was decided before, or the link was used.
        ChangeExpiredError: The link is too old.
        ChangeOutdatedError: The person's address is another one by now.
    """
    change = AccountChange.objects.select_related("subject").get(
        pk=change_id, kind=ChangeKind.EMAIL.value
    )
    with _audited_refusal(change, every=REFUSED_EVERY, actor=actor, at=at), transaction.atomic():
        if (change.email, str(change.subject_id)) != (email, actor.id):
            raise ChangeOutdatedError("The link was sent to another address.", field="email")
        return _approve(change, by="old_address", actor=actor, at=at)


def decline_change(*, change_id: UUID, actor: Actor, at: datetime) -> AccountChange:
    """Leave the account as it is.

    Raises:
        ChangeNotYoursError: It does not concern the actor.
        ChangeDecidedError: It was decided before.
    """
    change = AccountChange.objects.select_related("subject").get(pk=change_id)
    with _audited_refusal(change, actor=actor, at=at), transaction.atomic():
        if not may_decline(
            actor, requested_by=str(change.requested_by_id), subject=str(change.subject_id)
        ):
            raise ChangeNotYoursError("This is not yours to decline.", field="decided_by")
        _decide(change, ChangeState.DECLINED, actor=actor, at=at)
        _record(change, "decline", actor=actor, at=at)
    return change


def _person_id(actor: Actor) -> int:
    if actor.kind is not ActorKind.PERSON:
        raise ChangeNotYoursError("Only people ask for this.", field="subject")
    return int(actor.id)


def _add(change: AccountChange, *, actor: Actor, at: datetime) -> None:
    AccountChange.objects.filter(
        subject=change.subject,
        kind=change.kind,
        value=change.value,
        state=ChangeState.OPEN.value,
        expires_at__lte=at,
    ).update(state=ChangeState.EXPIRED.value)
    add_row(
        row=change,
        refusals={
            "account_change_open_once": ChangeAskedError("This is asked for.", field="subject")
        },
        actor=actor,
        at=at,
        organization_id=None,
        facts=_facts(change),
    )
    what, name = wanted_label(ChangeKind(change.kind), change.value), change.username
    notify(
        event="tenants:account_change:asked",
        organization_id=None,
        subject=f"{name}: {what}",
        text=f"{actor.label} asks for a change to the account of {name} "
        f"({change.email or 'no mail address'}): {what}.\n"
        f"A platform admin other than {actor.label} decides on it in the admin under Tenants, "
        f"Account changes, until {change.expires_at:%-d %B %Y, %H:%M} UTC. Approve it if you know "
        "why it is asked for and whose mail address that is; otherwise decline it and ask "
        f"{actor.label}.",
        facts=_facts(change),
        roles=[Role.PLATFORM_ADMIN],
        at=at,
    )


def _approve(change: AccountChange, *, by: str, actor: Actor, at: datetime) -> AccountChange:
    """Decide before the effect: of two concurrent approvals the second finds it decided."""
    _decide(change, ChangeState.APPROVED, actor=actor, at=at)
    _require_asker(change)
    (subject,) = lock_rows(User.objects.filter(pk=change.subject_id))
    for field, what in (("email", "address"), ("username", "user name")):
        if getattr(subject, field) != getattr(change, field):
            raise ChangeOutdatedError(
                f"The {what} of {change.username} was changed meanwhile.", field=field
            )
    if change.kind == ChangeKind.ROLE.value:
        grant_platform_role(role=Role(change.value), user=subject, actor=actor, at=at)
    elif change.kind == ChangeKind.STAFF.value:
        write_person(person=subject, changes={"is_staff": True}, actor=actor, at=at)
    elif change.kind in {ChangeKind.EMAIL.value, ChangeKind.USERNAME.value}:
        write_person(person=subject, changes={change.kind: change.value}, actor=actor, at=at)
    elif change.kind == ChangeKind.ACTIVATE.value:
        write_active(person=subject, actor=actor, at=at)
    _record(change, "approve", by=by, actor=actor, at=at)
    return change


def _require_asker(change: AccountChange) -> None:
    """Refuse a change if its requester has lost the right to request it: it needs two people.

    Raises:
        ChangeOutdatedError: The requester has lost the role.
    """
    asker = actor_of_user(change.requested_by)
    if not may_ask(asker, ChangeKind(change.kind), subject=str(change.subject_id)):
        raise ChangeOutdatedError(
            f"{asker.label} may not ask for this any more.", field="requested_by"
        )


def _decide(change: AccountChange, state: ChangeState, *, actor: Actor, at: datetime) -> None:
    """Decide by one conditional update, and look at what it did; late ones can be declined."""
    undecided = AccountChange.objects.filter(pk=change.pk, state=ChangeState.OPEN.value)
    if state is ChangeState.APPROVED:
        undecided = undecided.filter(expires_at__gt=at)
    decided = undecided.update(state=state.value, decided_by_id=int(actor.id), decided_at=at)
    if decided:
        change.state = state.value
        return
    now = AccountChange.objects.get(pk=change.pk)
    if now.state in {ChangeState.APPROVED.value, ChangeState.DECLINED.value}:
        raise ChangeDecidedError(f"This was {now.state} before.", field="state")
    raise ChangeExpiredError("This was not decided in time.", field="expires_at")


def _require_sense(change: AccountChange) -> None:
    subject = change.subject
    is_needless = {
        ChangeKind.ROLE.value: subject.memberships.filter(role=change.value).exists(),
        ChangeKind.STAFF.value: subject.is_staff,
        ChangeKind.FIRST_TOKEN.value: has_first_token(subject, at=change.requested_at)
        or not holds_platform_role(subject),
        ChangeKind.EMAIL.value: subject.email == change.value,
        ChangeKind.USERNAME.value: subject.get_username() == change.value,
        ChangeKind.ACTIVATE.value: subject.is_active,
    }
    if is_needless[change.kind]:
        raise ChangeNeedlessError(f"{subject.get_username()} does not need this.", field="subject")


def _value_problems(kind: ChangeKind, value: str) -> tuple[FieldProblem, ...]:
    roles = sorted(role.value for role in PLATFORM_ROLES)
    if kind is ChangeKind.ROLE and value not in roles:
        return (FieldProblem("value", "not_a_role", f"Use one of: {', '.join(roles)}."),)
    if kind is ChangeKind.EMAIL:
        wrong = address_problems(EndpointKind.MAIL, value, clear_text_hosts=())
        return tuple(FieldProblem("value", one.code, one.message) for one in wrong)
    if kind is ChangeKind.USERNAME:
        missing = (FieldProblem("value", "required", "Name the new user name."),)
        return name_problems(value, field="value") if value else missing
    if kind in {ChangeKind.STAFF, ChangeKind.FIRST_TOKEN, ChangeKind.ACTIVATE} and value:
        return (FieldProblem("value", "not_for_kind", "Leave it empty."),)
    return ()


@contextmanager
def _audited_refusal(
    change: AccountChange, *, every: timedelta = timedelta(0), actor: Actor, at: datetime
) -> Iterator[None]:
    """Leave an entry of a refusal, after what was refused is undone; one in so much time."""
    try:
        yield
    except DomainError as refusal:
        with transaction.atomic():
            if not (every and _is_refused_since(change, at - every)):
                _record(change, "refuse", code=refusal.code, actor=actor, at=at)
        raise


def _is_refused_since(change: AccountChange, moment: datetime) -> bool:
    lock_rows(AccountChange.objects.filter(pk=change.pk))
    return is_noted_since(
        moment,
        action="tenants:account_change:refuse",
        object_kind="account_change",
        object_id=change.pk,
    )


def _record(change: AccountChange, verb: str, *, actor: Actor, at: datetime, **facts: str) -> None:
    record(
        actor=actor,
        at=at,
        action=f"tenants:account_change:{verb}",
        object_kind="account_change",
        object_id=change.pk,
        facts={**_facts(change), **facts},
    )


def _facts(change: AccountChange) -> dict[str, str]:
    return {
        "kind": change.kind,
        "subject": change.username,
        "value": change.value,
        "email": change.email,
    }
