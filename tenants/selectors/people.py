"""People by the name they sign in with, and by what they hold."""

from collections.abc import Iterable

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


def mail_addresses(
    *, usernames: Iterable[str], memberships: QuerySet[Membership]
) -> tuple[str, ...]:
    """Return the mail addresses of active people, each once, in the order of the alphabet.

    Args:
        usernames: People by name.
        memberships: People by what they hold; service accounts have no address.
    """
    named = Q(username__in=list(usernames))
    holding = Q(pk__in=memberships.filter(user__isnull=False).values("user_id"))
    found = User.objects.filter(named | holding, is_active=True).exclude(email="")
    return tuple(sorted(set(found.values_list("email", flat=True))))
