"""Celery's kinds of work in tenants: notifications and links are sent, old rows are purged.

A tick that is lost loses nothing; the next one finds the same deliveries.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from celery import shared_task
from django.conf import settings

from tenants.adapters import document_loader, notification_senders
from tenants.adapters.mail import send_address_left, send_set_password
from tenants.domain.actors import Actor, system_actor
from tenants.selectors.clock import database_now
from tenants.services import retention
from tenants.services.idempotency import purge_responses
from tenants.services.identity.password_links import LINKS, take_link_request
from tenants.services.identity.sessions import delete_ended_sessions
from tenants.services.identity.sign_in import purge_attempts
from tenants.services.identity.tokens import LINKS_TASK
from tenants.services.notifications.deliveries import claim_deliveries, send_claimed
from tenants.services.wakeups import SLICE_SECONDS, WakeUp

DELIVERIES_PER_BATCH: Final = 20
"""At 5 s each they fit into the time for sending even when nobody answers."""
SECONDS_PER_TICK: Final = 60
"""No batch begins later, so that the last one ends within the lease of what was claimed."""
SENDING_SECONDS: Final = 130
"""No delivery begins later; what was claimed and not begun is left to the next tick."""
DELIVERY_SECONDS_MAX: Final = 70
"""A mail server may take 5 s for each of its ten answers, and its name has to be found."""
FORGETTING_SECONDS_MAX: Final = 60
"""No batch begins later; what is left is found by the next tick."""
ACTOR: Final = system_actor("tenants.tick")


def tick(at: datetime, actor: Actor = ACTOR, *, clock: Callable[[], float] = time.monotonic) -> int:
    """Send due deliveries; return how many were leased.

    After a batch with a timeout the tick ends: dead receivers must not keep a worker busy.

    Args:
        at: When, UTC.
        actor: A system actor.
        clock: Seconds that only grow.
    """
    begin = clock()
    tried = 0
    while clock() - begin < SECONDS_PER_TICK:
        claimed, is_last = _send_batch(
            has_time=lambda: clock() - begin < SENDING_SECONDS, actor=actor, at=at
        )
        tried += claimed
        if is_last:
            break
    return tried


@shared_task(base=WakeUp, name="tenants.tick_notifications")
def tick_notifications() -> Iterator[int]:
    """Send what is due, batch by batch."""
    until = time.monotonic() + SLICE_SECONDS
    is_last = False
    while not is_last:
        claimed, is_last = _send_batch(
            has_time=lambda: time.monotonic() < until, actor=ACTOR, at=database_now()
        )
        yield claimed


@shared_task(base=WakeUp, name=LINKS_TASK)
def tick_password_links() -> Iterator[int]:
    """Send the requested links, one by one."""
    yield from _answer_requests(LINKS, database_now)


def send_password_links(at: datetime, actor: Actor = LINKS) -> int:
    """Send requested password links; return how many.

    Args:
        at: When, UTC.
        actor: A system actor.
    """
    return sum(_answer_requests(actor, lambda: at))


def _answer_requests(actor: Actor, now: Callable[[], datetime]) -> Iterator[int]:
    while (mails := take_link_request(actor=actor, at=now())) is not None:
        for person in mails.people:
            send_set_password(person).result(timeout=DELIVERY_SECONDS_MAX)
        if mails.left_address:
            left = send_address_left(mails.left_address, username=mails.username)
            left.result(timeout=DELIVERY_SECONDS_MAX)
        yield len(mails.people)


def _send_batch(*, has_time: Callable[[], bool], actor: Actor, at: datetime) -> tuple[int, bool]:
    """Send one batch of due deliveries; return how many were leased, and whether to stop."""
    senders = notification_senders(settings.NOTIFICATION_SENDERS)
    claimed = claim_deliveries(limit=DELIVERIES_PER_BATCH, actor=actor, at=at)
    failed = send_claimed(
        claimed=claimed,
        senders=senders,
        load_document=document_loader(settings.NOTIFICATION_DOCUMENTS),
        has_time=has_time,
        at=at,
    )
    return len(claimed), failed > 0 or len(claimed) < DELIVERIES_PER_BATCH


def purge(
    at: datetime, actor: Actor = ACTOR, *, clock: Callable[[], float] = time.monotonic
) -> retention.PurgedNotifications:
    """Purge old notifications, stored responses and attempt counts; return how many of each.

    Args:
        at: When, UTC.
        actor: A system actor.
        clock: Seconds that only grow.
    """
    end = clock() + FORGETTING_SECONDS_MAX
    notifications = retention.purge_notifications(
        kept=timedelta(days=settings.NOTIFICATIONS_KEPT_DAYS),
        has_time=lambda: clock() < end,
        actor=actor,
        at=at,
    )
    answers = purge_responses(has_time=lambda: clock() < end, actor=actor, at=at)
    attempts = purge_attempts(has_time=lambda: clock() < end, actor=actor, at=at)
    return retention.PurgedNotifications(
        notifications=notifications, answers=answers, attempts=attempts
    )


@shared_task(base=WakeUp, name="tenants.tick_retention")
def tick_retention() -> None:
    """Purge old notifications, stored responses, attempt counts and ended sessions."""
    at = database_now()
    purge(at)
    delete_ended_sessions(actor=ACTOR, at=at)
