"""Writing people: made, changed, their passwords, in and out.

They are never deleted: the audit trail names them.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem
from tenants.domain.identity.account_changes import ChangeState
from tenants.domain.identity.refusals import (
    LinkInvalidError,
    MailMissingError,
    SecondPersonRequiredError,
    UsernameTakenError,
)
from tenants.models import AccountChange, KnownNetwork
from tenants.selectors.locks import lock_rows
from tenants.selectors.people import is_guarded, was_done_since
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row
from tenants.services.identity.memberships import refuse_last_platform_admin
from tenants.services.identity.tokens import end_credentials, revoke_tokens

LINK_EVERY: Final = timedelta(minutes=5)
"""Between two links to one person, and between two notes of refused ones: a page without sign-in
must fill neither a mailbox nor the trail."""

PLAIN_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._@+-]*[a-z0-9])?")
LINK_SENT: Final = "tenants:user:password_link"
LINK_REFUSED: Final = "tenants:user:password_link_refused"
NO_ADDRESS: Final = (FieldProblem("email", "required", "Name the address that links go to."),)


def name_problems(username: str, *, field: str = "username") -> tuple[FieldProblem, ...]:
    """Return why a new user name is invalid; an empty one is refused as empty.

    Pod usage and audit entries show people by name: a look-alike name could mislead.
    """
    if not username or PLAIN_NAME.fullmatch(username):
        return ()
    message = (
        "Use lower-case letters a to z, digits and . _ @ + -; begin and end with a letter or digit."
    )
    return (FieldProblem(field, "not_plain", message),)


@transaction.atomic
def create_person(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    username: str,
    email: str,
    first_name: str = "",
    last_name: str = "",
    is_mail_set_up: bool,
    actor: Actor,
    at: datetime,
) -> User:
    """Create a person without a password, and mail a link to set it.

    Args:
        username: What they sign in with.
        email: Where links go.
        first_name: For people to read.
        last_name: As above.
        is_mail_set_up: Whether links can be sent; if not, create people on the host.
        actor: The caller.
        at: When, UTC.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        MailMissingError: No link can be sent.
        UsernameTakenError: Another person has the name.
    """
    if not (is_mail_set_up or actor.is_system):
        raise MailMissingError("No mail server is set up.", field="email")
    person = User(
        username=username, email=email, first_name=first_name, last_name=last_name, date_joined=at
    )
    person.set_unusable_password()
    _add(person, actor=actor, at=at)
    return person


@transaction.atomic
def create_superuser(
    *, username: str, email: str, password: str | None, actor: Actor, at: datetime
) -> User:
    """Create a platform admin with access to the Django admin; on the host only.

    Args:
        username: What they sign in with.
        email: Where links go.
        password: Already validated; without one it is set by a link.
        actor: The service itself.
        at: When, UTC.

    Raises:
        ValueError: The actor is a person.
        InvalidInputError: Fields are wrong; every problem is listed.
        UsernameTakenError: Another person has the name.
    """
    if not actor.is_system:
        raise ValueError("superusers are made on the host")
    person = User(username=username, email=email, is_staff=True, is_superuser=True, date_joined=at)
    person.set_password(password)
    _add(person, actor=actor, at=at)
    return person


@transaction.atomic
def change_person(*, user: User, changes: Mapping[str, Any], actor: Actor, at: datetime) -> User:
    """Change a person's names, address or access to the admin.

    Args:
        user: The person.
        changes: New values of `username`, `first_name`, `last_name`, `email`, `is_staff`.
        actor: The caller; granting access to the admin, and changing name or address of a person
            with a platform role, needs a second person.
        at: When, UTC.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        SecondPersonRequiredError: This change needs a second person.
        UsernameTakenError: Another person has the name.
    """
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    wanted = {name: value for name, value in changes.items() if getattr(person, name) != value}
    if not actor.is_system:
        _require_one_person_may(person, wanted, at=at)
    return write_person(person=person, changes=wanted, actor=actor, at=at)


def write_person(*, person: User, changes: Mapping[str, Any], actor: Actor, at: datetime) -> User:
    """Change a locked person inside a transaction; the entry has old and new values.

    Another address, and access to the admin, end what the person signed in with.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        UsernameTakenError: Another person has the name.
    """
    changed = {name: [getattr(person, name), value] for name, value in changes.items()}
    if not changed:
        return person
    for name, value in changes.items():
        setattr(person, name, value)
    name = str(changes.get("username", ""))
    wrong = name_problems(name)
    refuse_invalid(person, further=(*wrong, *NO_ADDRESS) if changes.get("email") == "" else wrong)
    if name and User.objects.filter(username__iexact=name).exclude(pk=person.pk).exists():
        raise _taken(name)
    person.save(update_fields=list(changed))
    _record(person, "update", {"changed": changed}, actor=actor, at=at)
    if "email" in changed or changes.get("is_staff"):
        left, _ = changed.get("email", ("", ""))
        end_credentials(person=person, left_address=left, actor=actor, at=at)
    return person


@transaction.atomic
def note_password_link(
    *, user: User, every: timedelta = LINK_EVERY, actor: Actor, at: datetime
) -> bool:
    """Note that a link to set a password is sent to a person; False when one was sent just now.

    Args:
        user: The receiver, at their own address.
        every: Minimum time between two links.
        actor: The requester; never shown the link.
        at: When, UTC.
    """
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if not person.email or was_done_since(person, LINK_SENT, at - every):
        return False
    _record(person, "password_link", {"email": person.email}, actor=actor, at=at)
    return True


@transaction.atomic
def note_link_refused(*, user: User, actor: Actor, at: datetime) -> bool:
    """Note that a link to set a password was not valid; False when another one was just now.

    Args:
        user: The person named in the link.
        actor: The service itself, which answers the link.
        at: When, UTC.
    """
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if was_done_since(person, LINK_REFUSED, at - LINK_EVERY):
        return False
    _record(person, "password_link_refused", {"code": LinkInvalidError.code}, actor=actor, at=at)
    return True


@transaction.atomic
def set_password(*, user: User, password: str, by: str, actor: Actor, at: datetime) -> User:
    """Set a validated password and revoke every token, so that the old password gives no access.

    Django ends the person's sessions: each carries a digest of the password. Known
    networks and devices are deleted: someone else may have used them with the old password.

    Args:
        user: As it was when the right to do this was proven.
        password: In clear text; kept as Django's hash only.
        by: How it was proven: "link", "own" password, or "host".
        actor: The caller.
        at: When, UTC.

    Raises:
        LinkInvalidError: The password was changed since then, or the person was deactivated.
    """
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if person.password != user.password or not (person.is_active or actor.is_system):
        raise LinkInvalidError("The password was changed meanwhile.", field="new_password1")
    person.set_password(password)
    person.save(update_fields=["password"])
    revoked = revoke_tokens(person, at=at)
    KnownNetwork.objects.filter(user=person).delete()
    _record(person, "password", {"by": by, "tokens_revoked": revoked}, actor=actor, at=at)
    user.password = person.password
    return person


@transaction.atomic
def deactivate_user(*, user: User, actor: Actor, at: datetime) -> User:
    """Deactivate a person: end sign-in, API tokens and open requests. Idempotent.

    Raises:
        LastPlatformAdminError: No active platform admin would remain.
    """
    refuse_last_platform_admin(leaving=user.pk, actor=actor)
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if not person.is_active:
        return person
    person.is_active = False
    person.save(update_fields=["is_active"])
    revoked = revoke_tokens(person, at=at)
    closed = AccountChange.objects.filter(requested_by=person, state=ChangeState.OPEN.value).update(
        state=ChangeState.EXPIRED.value
    )
    facts = {"tokens_revoked": revoked, "changes_closed": closed}
    _record(person, "deactivate", facts, actor=actor, at=at)
    return person


@transaction.atomic
def activate_user(*, user: User, actor: Actor, at: datetime) -> User:
    """Activate a person again and mail a link to set a password. Idempotent.

    Raises:
        SecondPersonRequiredError: This change needs a second person.
    """
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if not actor.is_system and not person.is_active and is_guarded(person, at=at):
        raise _takes_two(person, f"activate {person.get_username()}", field="is_active")
    return write_active(person=person, actor=actor, at=at)


def write_active(*, person: User, actor: Actor, at: datetime) -> User:
    """Activate a locked person inside a transaction; end all earlier credentials."""
    if person.is_active:
        return person
    person.is_active = True
    person.save(update_fields=["is_active"])
    _record(person, "activate", {}, actor=actor, at=at)
    end_credentials(person=person, actor=actor, at=at)
    return person


def _add(person: User, *, actor: Actor, at: datetime) -> None:
    wrong = name_problems(person.username)
    refuse_invalid(person, further=wrong if person.email else (*wrong, *NO_ADDRESS))
    add_row(
        row=person,
        refusals={"auth_user_username_key": _taken(person.username)},
        actor=actor,
        at=at,
        organization_id=None,
        facts=_made(person),
    )


def note_user_saved(*, user: User, verb: str, actor: Actor, at: datetime) -> None:
    """Write the audit entry of a person that the caller has saved, inside a transaction.

    Args:
        user: The person.
        verb: "create", or "password" for a changed password.
        actor: The caller.
        at: When, UTC.
    """
    _record(user, verb, _made(user) if verb == "create" else {}, actor=actor, at=at)


def _made(person: User) -> dict[str, Any]:
    return {
        "username": person.get_username(),
        "email": person.email,
        "is_staff": person.is_staff,
        "is_superuser": person.is_superuser,
    }


def _require_one_person_may(person: User, changes: Mapping[str, Any], *, at: datetime) -> None:
    if changes.get("is_staff"):
        raise SecondPersonRequiredError(
            "One person alone does not open the admin to another.",
            field="is_staff",
            facts={"username": person.get_username()},
        )
    for field, what in (("email", "address"), ("username", "user name")):
        if field in changes and is_guarded(person, at=at):
            raise _takes_two(
                person,
                f"change the {what} of {person.get_username()}",
                field=field,
                wanted=str(changes[field]),
            )


def _takes_two(person: User, what: str, *, field: str, wanted: str = "") -> DomainError:
    return SecondPersonRequiredError(
        f"One person alone does not {what}.",
        field=field,
        facts={"username": person.get_username(), "wanted": wanted},
    )


def _taken(username: str) -> DomainError:
    return UsernameTakenError(f'Another person is called "{username}".', field="username")


def _record(
    person: User, verb: str, facts: Mapping[str, Any], *, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"tenants:user:{verb}",
        object_kind="user",
        object_id=person.pk,
        facts={"username": person.get_username(), **facts},
    )
