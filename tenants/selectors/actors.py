"""Actors as the tables have them now: a user's or a token's roles, or a refusal."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Final, cast
from uuid import UUID

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model

from tenants.domain.actors import Actor, ActorKind, Grant, limit_scopes
from tenants.domain.identity.roles import Role
from tenants.domain.identity.sign_in import is_same_digest, parse_token, token_digest
from tenants.domain.refusals import UnauthenticatedError
from tenants.models import ApiToken, Organization, ServiceAccount
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
    grants = _grants("user_id", user.pk)
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
        grants=_grants("service_account_id", account.pk),
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
    """Return the token with a prefix, its holder loaded.

    Every request of the API asks this: the statement is written once, where a queryset would be
    compiled each time, which takes longer than to execute it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_token_sql(), {"prefix": prefix})
        row = cursor.fetchone()
    if row is None:
        return None
    values = iter(row)
    token, user, account, organization = (_taken(model, values) for model in _OF_TOKEN)
    if account is not None:
        account.organization = organization
    token.user, token.service_account = user, account
    return cast("ApiToken", token)


_OF_TOKEN: Final = (ApiToken, User, ServiceAccount, Organization)


@cache
def _token_sql() -> str:
    columns = ", ".join(
        f'{model._meta.db_table}."{field.column}"'  # noqa: SLF001 - Public by documentation.
        for model in _OF_TOKEN
        for field in model._meta.concrete_fields  # noqa: SLF001
    )
    return f"""
SELECT {columns} FROM tenants_apitoken
  LEFT JOIN auth_user ON auth_user.id = tenants_apitoken.user_id
  LEFT JOIN tenants_serviceaccount
    ON tenants_serviceaccount.id = tenants_apitoken.service_account_id
  LEFT JOIN tenants_organization
    ON tenants_organization.id = tenants_serviceaccount.organization_id
 WHERE tenants_apitoken.prefix = %(prefix)s
"""  # noqa: S608 - Put together from constants only.


def _taken(model: type[Model], values: Iterator[Any]) -> Any:  # noqa: ANN401 - A row of the model.
    """Take a row of a model from values; None where the join found none."""
    names = [field.attname for field in model._meta.concrete_fields]  # noqa: SLF001
    taken = [next(values) for _ in names]
    return None if taken[0] is None else model.from_db(connection.alias, names, taken)


def _grants(holder: str, holder_id: int | UUID) -> tuple[Grant, ...]:
    """Return the grants of a holder, oldest first; one query, of every request.

    Args:
        holder: Its column, "user_id" or "service_account_id".
        holder_id: Its key.
    """
    with connection.cursor() as cursor:
        cursor.execute(_GRANTS[holder], [holder_id])
        return tuple(
            Grant(Role(role), organization_id=organization_id, project_id=project_id)
            for role, organization_id, project_id in cursor.fetchall()
        )


_GRANTS: Final = {
    holder: f"""
SELECT role, organization_id, project_id FROM tenants_membership
 WHERE {holder} = %s ORDER BY created_at, id
"""  # noqa: S608 - One of two columns.
    for holder in ("user_id", "service_account_id")
}
