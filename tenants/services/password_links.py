"""Requests for a link to set a password: noted by a page, answered by a worker.

The page does the same for every address, so that neither its answer nor its time says which
addresses have an account.
"""

from datetime import datetime
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor, system_actor
from tenants.domain.refusals import TooManyAttemptsError
from tenants.models import PasswordLinkRequest
from tenants.selectors.people import people_with_address
from tenants.services.people import note_password_link
from tenants.services.sign_in import count_link_request
from tenants.services.wakeups import wake_after_commit

LINKS: Final = system_actor("accounts.password")
TASK: Final = "tenants.tick_password_links"


def ask_password_link(*, email: str, network: str, actor: Actor, at: datetime) -> bool:
    """Note a request for a link; False when there were too many.

    Args:
        email: The address of one account, of several, or of none.
        network: Where the request comes from.
        actor: The service itself, since no caller is proven.
        at: When, UTC.
    """
    try:
        count_link_request(email=email, network=network, actor=actor, at=at)
    except TooManyAttemptsError:
        return False
    with transaction.atomic():
        PasswordLinkRequest.objects.create(email=email, asked_at=at)
        wake_after_commit(TASK)
    return True


@transaction.atomic
def take_link_request(*, actor: Actor, at: datetime) -> list[User] | None:
    """Take the oldest request; return the people who get a link now, None when none is left.

    The caller sends the links once this is committed. A worker that dies in between sends none,
    and people ask again.

    Args:
        actor: The service itself.
        at: When, UTC.
    """
    request = PasswordLinkRequest.objects.select_for_update(skip_locked=True).order_by("pk").first()
    if request is None:
        return None
    request.delete()
    return [
        person
        for person in people_with_address(request.email)
        if note_password_link(user=person, actor=actor, at=at)
    ]
