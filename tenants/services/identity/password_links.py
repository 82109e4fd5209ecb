"""Requests for a link to set a password: noted by a page, answered by a worker.

The page does the same for every address, so that neither its answer nor its time says which
addresses have an account.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor, system_actor
from tenants.domain.refusals import TooManyAttemptsError
from tenants.models import PasswordLinkRequest
from tenants.selectors.people import people_with_address
from tenants.services.identity.people import note_password_link
from tenants.services.identity.sign_in import count_link_request
from tenants.services.identity.tokens import LINKS_TASK
from tenants.services.wakeups import wake_after_commit

LINKS: Final = system_actor("accounts.password")


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
        PasswordLinkRequest.objects.create(email=email, requested_at=at)
        wake_after_commit(LINKS_TASK)
    return True


@dataclass(frozen=True)
class LinkMails:
    """The mails of one request.

    Attributes:
        people: The receivers of a link.
        left_address: The previous address of an account, which gets a mail; "" for none.
        username: Of that account.
    """

    people: tuple[User, ...]
    left_address: str = ""
    username: str = ""


@transaction.atomic
def take_link_request(*, actor: Actor, at: datetime) -> LinkMails | None:
    """Take the oldest request; return what to mail now, None when no request is left.

    The caller sends the mails once this is committed. A worker that dies in between sends none,
    and people ask again.

    Args:
        actor: The service itself.
        at: When, UTC.
    """
    request = (
        PasswordLinkRequest.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("person")
        .order_by("pk")
        .first()
    )
    if request is None:
        return None
    request.delete()
    if request.person is not None:
        return _mails_of_change(request, request.person, actor=actor, at=at)
    known = people_with_address(request.email)
    return LinkMails(tuple(p for p in known if note_password_link(user=p, actor=actor, at=at)))


def _mails_of_change(
    request: PasswordLinkRequest, person: User, *, actor: Actor, at: datetime
) -> LinkMails:
    """Return the mails of ended credentials; the link goes where it was decided to, or nowhere."""
    is_due = person.is_active and person.email == request.email and not person.has_usable_password()
    if is_due:
        is_due = note_password_link(user=person, every=timedelta(0), actor=actor, at=at)
    return LinkMails(
        (person,) if is_due else (),
        left_address=request.left_address,
        username=person.get_username(),
    )
