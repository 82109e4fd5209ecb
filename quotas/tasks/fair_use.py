"""Ticks of fair use: what time does to loans."""

from datetime import datetime
from typing import Final
from uuid import UUID

from celery import shared_task
from django.conf import settings

from metering.domain.efficiency.rules import thresholds_of
from quotas.selectors.lending import LendingTerms, due_loan_ids, lending_organization_ids
from quotas.services.lending import loans, proposals
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.turns import for_each_isolated
from tenants.services.wakeups import WakeUp

LOANS_CRASHED: Final = "quotas.loans.crashed"


def share_fairly(at: datetime, actor: Actor = ACTOR) -> int:
    """Close expired loans and propose those that would help; return how many changed.

    Args:
        at: When, UTC.
        actor: The account that ticks.
    """
    terms = LendingTerms(
        burst_classes=settings.BURST_PRIORITY_CLASSES,
        thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
    )

    def end(loan_id: UUID) -> int:
        loans.end_loan(loan_id=loan_id, actor=actor, at=at)
        return 1

    def refresh(organization_id: UUID) -> int:
        found = proposals.refresh_loans(
            organization_id=organization_id, terms=terms, actor=actor, at=at
        )
        return found.proposed + found.lapsed

    ended = for_each_isolated(due_loan_ids(at=at), end, event=LOANS_CRASHED, at=at)
    return ended + for_each_isolated(
        lending_organization_ids(at=at), refresh, event=LOANS_CRASHED, at=at
    )


@shared_task(base=WakeUp, name="quotas.tick_fair_use")
def tick_fair_use() -> None:
    """Look after the loans between projects."""
    share_fairly(database_now())
