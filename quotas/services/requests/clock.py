"""What time does to requests: they move up, they expire, and grants are about to end."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from quotas.domain.requests.routing import RequestMove
from quotas.models import RequestState
from quotas.selectors.locks import lock_request
from quotas.selectors.requests import (
    ending_grants,
    expired_request_ids,
    policy_of,
    silent_request_ids,
)
from quotas.services.requests.deciding import finish, open_step, raise_step, record_request
from quotas.services.requests.news import notify_ending
from tenants.domain.actors import Actor
from tenants.services.turns import for_each_isolated

CRASHED: Final = "quotas.requests.crashed"
PER_TICK: Final = 500
"""More than a platform gets in a day; what is left is found by the next tick."""


def expire_requests(*, actor: Actor, at: datetime) -> int:
    """Expire the requests that were not decided in time; return how many."""
    due = expired_request_ids(at=at, limit=PER_TICK)
    return for_each_isolated(
        due, lambda one: expire_request(request_id=one, actor=actor, at=at), event=CRASHED, at=at
    )


def escalate_requests(*, actor: Actor, at: datetime) -> int:
    """Escalate steps that were not decided in time to the next level; return how many."""
    due = silent_request_ids(at=at, limit=PER_TICK)
    return for_each_isolated(
        due, lambda one: escalate_request(request_id=one, actor=actor, at=at), event=CRASHED, at=at
    )


@transaction.atomic
def expire_request(*, request_id: UUID, actor: Actor, at: datetime) -> bool:
    """Expire a request that was not decided in time; False when there is nothing to do."""
    request = lock_request(request_id)
    if request is None or request.state != RequestState.SUBMITTED:
        return False
    if request.expires_at is None or request.expires_at > at:
        return False
    finish(request, RequestMove.EXPIRE, note="", actor=actor, at=at)
    return True


@transaction.atomic
def escalate_request(*, request_id: UUID, actor: Actor, at: datetime) -> bool:
    """Escalate the open step to the next level; False when there is nothing to do."""
    request = lock_request(request_id)
    if request is None or request.state != RequestState.SUBMITTED:
        return False
    step = open_step(request)
    if step is None or step.escalates_at is None or step.escalates_at > at:
        return False
    wait = policy_of(request.organization_id).escalate_after
    if wait is None or not raise_step(request, step, escalate_after=wait, at=at):
        step.escalates_at = None
        step.save(update_fields=["escalates_at"])
        return False
    record_request(request, "escalate", actor=actor, at=at)
    return True


def remind_of_ends(*, actor: Actor, at: datetime) -> int:
    """Notify requesters once of grants that end within the policy's days; return how many.

    Args:
        actor: The account that notifies.
        at: When, UTC.
    """
    due = {grant.pk: (grant, request) for grant, request in ending_grants(at=at, limit=PER_TICK)}

    @transaction.atomic
    def remind(grant_id: UUID) -> bool:
        grant, request = due[grant_id]
        is_sent = notify_ending(grant, request, at=at)
        if is_sent:
            record_request(request, "remind", actor=actor, at=at)
        return is_sent

    return for_each_isolated(due, remind, event=CRASHED, at=at)
