"""People by the name they sign in with."""

from django.contrib.auth.models import User

from tenants.domain.errors import NotFoundError


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
