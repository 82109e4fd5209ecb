"""Writing service accounts and API tokens: made, issued once, used, revoked."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import DomainError, FieldProblem
from tenants.domain.identifiers import new_id
from tenants.domain.identity.refusals import SecondPersonRequiredError, TokenIssuedError
from tenants.domain.identity.roles import ALL_CAPABILITIES
from tenants.domain.identity.sign_in import LIFETIME_MAX, PREFIX_LENGTH, SECRET_LENGTH, TokenText
from tenants.domain.refusals import (
    HolderInactiveError,
    OrganizationClosedError,
    SlugTakenError,
    TokenNotYoursToIssueError,
)
from tenants.models import (
    ApiToken,
    KnownNetwork,
    Organization,
    PasswordLinkRequest,
    PersonSession,
    ServiceAccount,
)
from tenants.models.organization import LifecycleState
from tenants.selectors.actors import digest_of
from tenants.selectors.locks import lock_in_order, lock_rows
from tenants.selectors.people import has_first_token, holds_platform_role
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row
from tenants.services.wakeups import wake_after_commit

WRITE: Final = "tenants:token:write"
USE_NOTED_EVERY: Final = timedelta(minutes=5)
"""`last_used_at` is for people; a write per request would make every read a write."""


@dataclass(frozen=True)
class IssuedToken:
    """A new token and its text, which is shown now and never again."""

    token: ApiToken
    text: str = field(repr=False)


@transaction.atomic
def issue_token(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    name: str,
    expires_at: datetime,
    user: User | None = None,
    service_account: ServiceAccount | None = None,
    scopes: Iterable[str] = (),
    token_id: UUID | None = None,
    actor: Actor,
    at: datetime,
) -> IssuedToken:
    """Issue a token to its holder: the actor's own user, or a service account that it manages.

    Args:
        name: What it is for.
        expires_at: When it ends, at most 365 days ahead and no later than the actor's own token.
        user: The holder, or
        service_account: the holder.
        scopes: Capabilities it is limited to; none for all that the holder has.
        token_id: Its id, when the form sends one: a form sent twice issues one token.
        actor: The caller; a scoped actor cannot issue a wider token.
        at: When, UTC.

    Raises:
        ValueError: Not exactly one holder was named.
        InvalidInputError: Fields are wrong; every problem is listed.
        TokenNotYoursToIssueError: The holder is another person, or the scopes or the lifetime
            exceed those of the actor's own token.
        SecondPersonRequiredError: The first token of a person with a platform role.
        HolderInactiveError: The holder is inactive.
        TokenIssuedError: The token with this id was issued before.
    """
    if (user is None) == (service_account is None):
        raise ValueError("a token has exactly one holder")
    wanted = sorted(set(scopes))
    text = TokenText(secrets.token_hex(PREFIX_LENGTH // 2), secrets.token_hex(SECRET_LENGTH // 2))
    token = ApiToken(
        id=token_id or new_id(),
        prefix=text.prefix,
        digest=digest_of(text.secret),
        name=name,
        user=user,
        service_account=service_account,
        scopes=wanted,
        created_at=at,
        expires_at=expires_at,
    )
    refuse_invalid(token, further=(*_scope_problems(wanted), *_expiry_problems(expires_at, at)))
    _require_may_issue(actor, token)
    _require_active(token)
    _require_second_person(actor, token, at=at)
    add_row(
        row=token,
        refusals={"tenants_apitoken_pkey": _issued_before()},
        actor=actor,
        at=at,
        organization_id=_organization_of(token),
        facts={
            "prefix": text.prefix,
            "holder": _holder_label(token),
            "scopes": wanted,
            "expires_at": expires_at.isoformat(),
        },
    )
    return IssuedToken(token=token, text=str(text))


@transaction.atomic
def revoke_token(*, token: ApiToken, actor: Actor, at: datetime) -> ApiToken:
    """Revoke a token for ever, at once. Revoking twice changes nothing."""
    (row,) = lock_rows(ApiToken.objects.filter(pk=token.pk))
    if row.revoked_at is not None:
        return row
    row.revoked_at = at
    row.save(update_fields=["revoked_at"])
    record(
        actor=actor,
        at=at,
        action="tenants:api_token:revoke",
        object_kind="api_token",
        object_id=row.pk,
        organization_id=_organization_of(row),
        facts={"prefix": row.prefix},
    )
    return row


def note_token_use(*, token: ApiToken, actor: Actor, at: datetime) -> bool:
    """Note that a token was used, at most every five minutes; return whether it was noted.

    It only helps to find unused tokens, so it leaves no audit entry.

    Args:
        token: Which one; what it knows of its last use may be old.
        actor: Its holder; only a holder's use counts.
        at: When, UTC.
    """
    if token.last_used_at is not None and token.last_used_at >= at - USE_NOTED_EVERY:
        return False
    mine = Q(user_id=actor.id) if actor.kind is ActorKind.PERSON else Q(service_account_id=actor.id)
    stale = Q(last_used_at=None) | Q(last_used_at__lt=at - USE_NOTED_EVERY)
    return bool(ApiToken.objects.filter(mine & stale, pk=token.pk).update(last_used_at=at))


def _issued_before() -> DomainError:
    return TokenIssuedError("This form issued its token before, and showed the text then.")


def _scope_problems(scopes: list[str]) -> tuple[FieldProblem, ...]:
    return tuple(
        FieldProblem("scopes", "unknown_capability", f'"{scope}" is not a capability.')
        for scope in scopes
        if scope not in ALL_CAPABILITIES
    )


def _expiry_problems(expires_at: datetime, at: datetime) -> tuple[FieldProblem, ...]:
    if expires_at <= at:
        return (FieldProblem("expires_at", "in_the_past", "Choose a time to come."),)
    if expires_at - at > LIFETIME_MAX:
        message = f"A token lives at most {LIFETIME_MAX.days} days."
        return (FieldProblem("expires_at", "too_late", message),)
    return ()


def _require_may_issue(actor: Actor, token: ApiToken) -> None:
    """Refuse a token for another person or a foreign account, or more than the actor's own."""
    if actor.is_system:
        return
    if token.user is not None:
        is_theirs = (actor.kind, actor.id) == (ActorKind.PERSON, str(token.user_id))
        is_theirs = is_theirs and (actor.scopes is None or WRITE in actor.scopes)
    else:
        is_theirs = actor.may(WRITE, organization_id=_organization_of(token))
    if not is_theirs:
        raise TokenNotYoursToIssueError("This token is for somebody else.")
    if actor.scopes is not None and not (token.scopes and actor.scopes.issuperset(token.scopes)):
        raise TokenNotYoursToIssueError(
            "A token limited to scopes issues only tokens within them.", field="scopes"
        )
    if actor.ends_at is not None and token.expires_at > actor.ends_at:
        raise TokenNotYoursToIssueError(
            f"A token issues none that ends after itself, at {actor.ends_at:%Y-%m-%d %H:%M} UTC.",
            field="expires_at",
            remedy="Name an earlier end. Sign in to issue a token that lives longer.",
        )


def _require_active(token: ApiToken) -> None:
    """Lock the holder, so that it is not closed meanwhile, and refuse one that may not act."""
    if token.service_account is None:
        people = lock_rows(User.objects.filter(pk__in=[token.user_id]))
        is_active = all(person.is_active for person in people)
    else:
        (organization,), (account,) = lock_in_order(
            Organization.objects.filter(pk=token.service_account.organization_id),
            ServiceAccount.objects.filter(pk=token.service_account.pk),
        )
        is_active = organization.state == account.state == LifecycleState.ACTIVE
    if not is_active:
        raise HolderInactiveError(f"{_holder_label(token)} may not act.")


def _require_second_person(actor: Actor, token: ApiToken, *, at: datetime) -> None:
    """Refuse the first token of a person with a role of the platform, unless it was approved."""
    if actor.is_system or token.user is None or not holds_platform_role(token.user):
        return
    if not has_first_token(token.user, at=at):
        raise SecondPersonRequiredError(
            f"The first token of {_holder_label(token)} takes a second person.",
            field="user",
            remedy="Ask for it under Your access (/accounts/); another platform admin decides.",
            facts={"username": _holder_label(token)},
        )


def _organization_of(token: ApiToken) -> UUID | None:
    return None if token.service_account is None else token.service_account.organization_id


def _holder_label(token: ApiToken) -> str:
    if token.service_account is not None:
        return token.service_account.slug
    return token.user.get_username() if token.user is not None else ""


@transaction.atomic
def create_service_account(
    *, organization: Organization, slug: str, name: str, actor: Actor, at: datetime
) -> ServiceAccount:
    """Create a service account of an organization, without roles and tokens.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        OrganizationClosedError: The organization is closed.
        SlugTakenError: The organization has an account with this slug.
    """
    account = ServiceAccount(organization=organization, slug=slug, name=name, created_at=at)
    refuse_invalid(account)
    (owner,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    if owner.state != LifecycleState.ACTIVE:
        raise OrganizationClosedError(f"{owner.name} is closed.", field="organization")
    add_row(
        row=account,
        refusals={
            "service_account_slug_unique_in_organization": SlugTakenError(
                f'The organization has a service account with the slug "{slug}".', field="slug"
            )
        },
        actor=actor,
        at=at,
        organization_id=owner.id,
        facts={"slug": slug},
    )
    return account


@transaction.atomic
def close_service_account(*, account: ServiceAccount, actor: Actor, at: datetime) -> ServiceAccount:
    """Close a service account and revoke its tokens. Closing twice changes nothing."""
    (row,) = lock_rows(ServiceAccount.objects.filter(pk=account.pk))
    if row.state == LifecycleState.CLOSED:
        return row
    row.state = LifecycleState.CLOSED
    row.save(update_fields=["state"])
    revoked = ApiToken.objects.filter(service_account=row, revoked_at=None).update(revoked_at=at)
    record(
        actor=actor,
        at=at,
        action="tenants:service_account:close",
        object_kind="service_account",
        object_id=row.pk,
        organization_id=row.organization_id,
        facts={"slug": row.slug, "tokens_revoked": revoked},
    )
    return row


LINKS_TASK: Final = "tenants.tick_password_links"


def end_credentials(*, person: User, left_address: str = "", actor: Actor, at: datetime) -> None:
    """End the password, sessions, links and tokens of a locked person, inside a transaction.

    Used when address or roles change: earlier credentials must not get the new rights. A link to
    set a password goes to the present address.

    Args:
        person: Locked, and saved except for the password.
        left_address: The former address, which is mailed too; "" when unchanged.
        actor: The caller.
        at: When, UTC.
    """
    person.set_unusable_password()
    person.save(update_fields=["password"])
    revoked = revoke_tokens(person, at=at)
    PersonSession.objects.filter(user=person).delete()
    KnownNetwork.objects.filter(user=person).delete()
    PasswordLinkRequest.objects.create(
        person=person, email=person.email, left_address=left_address, requested_at=at
    )
    wake_after_commit(LINKS_TASK)
    record(
        actor=actor,
        at=at,
        action="tenants:user:end_credentials",
        object_kind="user",
        object_id=person.pk,
        facts={"username": person.get_username(), "tokens_revoked": revoked},
    )


def revoke_tokens(person: User, *, at: datetime) -> int:
    """Revoke every token of a locked person; return how many."""
    return ApiToken.objects.filter(user=person, revoked_at=None).update(revoked_at=at)
