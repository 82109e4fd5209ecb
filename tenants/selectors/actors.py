"""Actors as the tables have them now: a user's or a token's roles, or a refusal."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User

from tenants.domain.actors import Actor, ActorKind, Grant, limit_scopes
from tenants.domain.identity.roles import Role
from tenants.domain.identity.sign_in import is_same_digest, parse_token, token_digest
from tenants.domain.refusals import UnauthenticatedError
from tenants.models import ApiToken, Membership, ServiceAccount
from tenants.models.organization import LifecycleState


def actor_of_user(user: AbstractBaseUser) -> Actor:
    """Return the actor of a signed-in person, with its present roles.

    A Django superuser, made by `createsuperuser`, is a platform admin: the first role must come
    from outside.

    Raises:
        UnauthenticatedError: The user was deactivated.
    """
    if not isinstance(user, User) or not user.is_active:
        raise UnauthenticatedError("This user was deactivated.")
    grants = _grants(Membership.objects.filter(user=user))
    if user.is_superuser:
        grants = (Grant(Role.PLATFORM_ADMIN), *grants)
    return Actor(kind=ActorKind.PERSON, id=str(user.pk), label=user.get_username(), grants=grants)


def actor_of_service_account(account: ServiceAccount) -> Actor:
    """Return the actor that a service account is.

    Raises:
        UnauthenticatedError: It or its organization is closed.
    """
    if account.state != LifecycleState.ACTIVE:
        raise UnauthenticatedError("This service account is closed.")
    if account.organization.state != LifecycleState.ACTIVE:
        raise UnauthenticatedError("The organization of this service account is closed.")
    return Actor(
        kind=ActorKind.SERVICE_ACCOUNT,
        id=str(account.pk),
        label=account.slug,
        grants=_grants(Membership.objects.filter(service_account=account)),
    )


def actor_of_token(token: ApiToken, *, at: datetime) -> Actor:
    """Return the actor that a token's holder is, limited to the token's scopes and time.

    Args:
        token: Its secret is already proven; its holder is loaded.
        at: When, UTC.

    Raises:
        UnauthenticatedError: The token is revoked or expired, or its holder may not act.
    """
    if token.revoked_at is not None:
        raise UnauthenticatedError("This API token was revoked.")
    if token.expires_at <= at:
        raise UnauthenticatedError("This API token has expired.")
    if token.user is not None:
        holder = actor_of_user(token.user)
    elif token.service_account is not None:
        holder = actor_of_service_account(token.service_account)
    else:
        raise ValueError("a token has a holder")
    scopes = limit_scopes(token.scopes) if token.scopes else None
    return replace(holder, scopes=scopes, ends_at=token.expires_at)


def prove_token(text: str) -> ApiToken:
    """Return the token with this text, with its holder; one query.

    The refusal is the same for an unknown prefix and a wrong secret.

    Raises:
        UnauthenticatedError: No token has this text.
    """
    parts = parse_token(text)
    token = None if parts is None else _with_holder(parts.prefix)
    if parts is None or token is None:
        raise UnauthenticatedError("This API token is not known.")
    if not is_same_digest(bytes(token.digest), digest_of(parts.secret)):
        raise UnauthenticatedError("This API token is not known.")
    return token


def digest_of(secret: str) -> bytes:
    """Return the stored digest of a secret; only this function reads the pepper."""
    return token_digest(secret, pepper=settings.API_TOKEN_PEPPER)


def _with_holder(prefix: str) -> ApiToken | None:
    return (
        ApiToken.objects.filter(prefix=prefix)
        .select_related("user", "service_account__organization")
        .first()
    )


def _grants(memberships: Iterable[Membership]) -> tuple[Grant, ...]:
    """Return the grants of memberships, oldest first; one query."""
    return tuple(
        Grant(Role(m.role), organization_id=m.organization_id, project_id=m.project_id)
        for m in memberships
    )
