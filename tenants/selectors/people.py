"""People by the name they sign in with, and by what they hold."""

from collections.abc import Iterable
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from tenants.domain.errors import NotFoundError
from tenants.models import Membership


def user_named(username: str, *, field: str = "user") -> User:
    """Return the person with a user name.

    Args:
        username: As written at sign-in.
        field: The input field to blame.

    Raises:
        NotFoundError: Nobody has it.
    """
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFoundError(
            "Nobody has this user name.", field=field, remedy="Check how the name is written."
        )
    return user


def people_of(organization_id: UUID | None, *, usernames: Iterable[str]) -> QuerySet[User]:
    """Return those of the named people who are active and hold a role there or on the platform.

    Names come from labels of pods, which anybody may write: a name that belongs to somebody of
    another organization must tell that person nothing.

    Args:
        organization_id: Of which organization, its projects included; None for the platform alone.
        usernames: As written at sign-in.
    """
    held = Q(organization__isnull=True, project__isnull=True)
    if organization_id is not None:
        held |= Q(organization=organization_id) | Q(project__organization=organization_id)
    holding = Membership.objects.filter(held, user__isnull=False).values("user_id")
    return User.objects.filter(username__in=list(usernames), pk__in=holding, is_active=True)


def mail_addresses(
    *,
    usernames: Iterable[str],
    organization_id: UUID | None,
    memberships: QuerySet[Membership],
) -> tuple[str, ...]:
    """Return the mail addresses of active people, each once, in the order of the alphabet.

    Args:
        usernames: People by name, as far as `people_of` the organization.
        organization_id: Whose matter it is; None for the platform's.
        memberships: People by what they hold; service accounts have no address.
    """
    named = Q(pk__in=people_of(organization_id, usernames=usernames).values("pk"))
    holding = Q(pk__in=memberships.filter(user__isnull=False).values("user_id"))
    found = User.objects.filter(named | holding, is_active=True).exclude(email="")
    return tuple(sorted(set(found.values_list("email", flat=True))))
