"""Hints: a bell after commit, so that a changed limit is live in the clusters within seconds.

A hint carries an organization's id and no fact. One that is lost costs the seconds to the next
tick, and nothing else.
"""

from typing import Final
from uuid import UUID

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

TASK_NAME: Final = "quotas.enforce_organization"
"""Sent by name: services know no task."""

log = structlog.get_logger(__name__)


def hint_changed(organization_id: UUID) -> None:
    """Have an organization's quotas planned and applied soon after the transaction commits.

    Nothing is sent when it rolls back. A broker that is away is logged and no error: the tick
    finds the same work.
    """
    transaction.on_commit(lambda: _ring(organization_id))


def _ring(organization_id: UUID) -> None:
    try:
        # Not tried again: whoever changed the limit waits for this answer.
        current_app.send_task(TASK_NAME, args=[str(organization_id)], retry=False)
    except OperationalError:
        log.warning("quotas.enforcement.unhinted", organization=str(organization_id))
