"""Proposals of loans for projects that wait, and the lending policy that they follow."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction

from quotas.domain.lending import LoanOffer, band_problems, match_offers, missing_units, spare_units
from quotas.domain.limits.input import refuse_problems
from quotas.models import LoanMode, LoanPolicy, LoanState, QuotaLoan
from quotas.selectors.lending import (
    LendingTerms,
    Market,
    MarketFacts,
    band_of,
    loan_policy,
    market_facts,
)
from quotas.selectors.locks import lock_limit_paths
from quotas.services.lending.loans import approve_loan, lapse_loan, notify_loan, record_loan
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem
from tenants.models import Organization
from tenants.services.audit import record

log = structlog.get_logger(__name__)

WRITE: Final = "quotas:limit:write"
DECLINED_FOR: Final = timedelta(days=7)
"""A declined loan is not proposed again within a week."""


@dataclass(frozen=True)
class LendingDone:
    """Result of one run for an organization."""

    proposed: int
    approved: int
    lapsed: int


@transaction.atomic
def refresh_loans(
    *, organization_id: UUID, terms: LendingTerms, actor: Actor, at: datetime
) -> LendingDone:
    """Propose what would help now, and withdraw proposals that no longer would.

    Idempotent: existing proposals stay. Where the policy says automatic, each new proposal is
    approved in the same transaction.

    Args:
        organization_id: Organization of the projects.
        terms: From the settings.
        actor: An account that may write the limits of the organization's projects.
        at: Now, UTC.
    """
    lock_limit_paths(organization_id=organization_id, project_ids=[], user_ids=[])
    policy = loan_policy(organization_id)
    facts = _facts(policy, terms=terms, at=at)
    band = band_of(policy)
    offers = [
        (market, offer)
        for market, found in sorted(facts.items(), key=lambda item: str(item[0]))
        for offer in match_offers(found.capacities.values(), found.waits, band=band)
    ]
    lapsed = _lapse(organization_id, offers, actor=actor, at=at)
    made = [
        _propose(organization_id, market, offer, facts[market], policy=policy, actor=actor, at=at)
        for market, offer in _new_offers(organization_id, offers, at=at)
    ]
    approved = 0
    if policy.mode == LoanMode.AUTOMATIC:
        approved = sum(_approve(loan, terms=terms, actor=actor, at=at) for loan in made)
    return LendingDone(proposed=len(made), approved=approved, lapsed=lapsed)


@transaction.atomic
def set_loan_policy(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    organization: Organization,
    mode: str,
    max_units: int,
    max_days: int,
    keep_free_percent: int,
    actor: Actor,
    at: datetime,
) -> LoanPolicy:
    """Set what happens when one project waits for units that another holds idle.

    Loans in force stay as they are. Setting what already holds is nothing.

    Raises:
        ForbiddenError: The actor may not write the limits of the organization's projects.
        QuotaInputError: The mode or a number is not valid; every problem is reported.
    """
    refuse_problems(
        (
            *_mode_problems(mode),
            *band_problems(
                max_units=max_units, max_days=max_days, keep_free_percent=keep_free_percent
            ),
        )
    )
    require_capability(actor, WRITE, organization_id=organization.pk)
    lock_limit_paths(organization_id=organization.pk, project_ids=[], user_ids=[])
    policy = LoanPolicy.objects.filter(pk=organization.pk).first()
    wanted = {
        "mode": mode,
        "max_units": max_units,
        "max_days": max_days,
        "keep_free_percent": keep_free_percent,
    }
    if policy is not None and _terms(policy) == wanted:
        return policy
    before = None if policy is None else _terms(policy)
    version = 1 if policy is None else policy.version + 1
    policy = LoanPolicy(organization=organization, version=version, changed_at=at, **wanted)
    policy.save()
    record(
        actor=actor,
        at=at,
        action="quotas:loan_policy:set",
        object_kind="loan_policy",
        object_id=organization.pk,
        organization_id=organization.pk,
        facts={"before": before, "after": wanted},
    )
    return policy


def _facts(
    policy: LoanPolicy, *, terms: LendingTerms, at: datetime
) -> Mapping[Market, MarketFacts]:
    """Return the facts for a policy; none where it allows no loans."""
    if policy.mode == LoanMode.OFF:
        return {}
    return market_facts(
        policy.organization_id,
        terms=terms,
        at=at,
        counts_requests=policy.mode == LoanMode.PROPOSE,
    )


def _terms(policy: LoanPolicy) -> dict[str, object]:
    return {
        "mode": str(policy.mode),
        "max_units": policy.max_units,
        "max_days": policy.max_days,
        "keep_free_percent": policy.keep_free_percent,
    }


def _mode_problems(mode: str) -> tuple[FieldProblem, ...]:
    if mode in LoanMode.values:
        return ()
    message = f"Use one of: {', '.join(LoanMode.values)}."
    return (FieldProblem(field="mode", code="mode_unknown", message=message),)


def _key(market: Market, offer: LoanOffer) -> tuple[UUID, UUID, str, UUID | None]:
    return (offer.lender_id, offer.borrower_id, market[0].value, market[1])


def _loan_key(loan: QuotaLoan) -> tuple[UUID, UUID, str, UUID | None]:
    return (loan.lender_id, loan.borrower_id, loan.size, loan.cluster_id)


def _lapse(
    organization_id: UUID,
    offers: list[tuple[Market, LoanOffer]],
    *,
    actor: Actor,
    at: datetime,
) -> int:
    """Withdraw the proposals of which less is offered now than they say."""
    offered: Mapping[object, int] = {_key(market, offer): offer.units for market, offer in offers}
    stale = [
        loan.pk
        for loan in _loans(organization_id, LoanState.PROPOSED)
        if offered.get(_loan_key(loan), 0) < loan.units
    ]
    for loan_id in stale:
        lapse_loan(loan_id=loan_id, actor=actor, at=at)
    return len(stale)


def _new_offers(
    organization_id: UUID, offers: list[tuple[Market, LoanOffer]], *, at: datetime
) -> list[tuple[Market, LoanOffer]]:
    known = {_loan_key(loan) for loan in _loans(organization_id, LoanState.PROPOSED)}
    known |= {
        _loan_key(loan)
        for loan in _loans(organization_id, LoanState.DECLINED)
        if loan.decided_at is not None and loan.decided_at > at - DECLINED_FOR
    }
    return [(market, offer) for market, offer in offers if _key(market, offer) not in known]


def _loans(organization_id: UUID, state: LoanState) -> list[QuotaLoan]:
    return list(QuotaLoan.objects.filter(organization_id=organization_id, state=state))


def _propose(  # noqa: PLR0913 - The facts of one offer; three are keyword only.
    organization_id: UUID,
    market: Market,
    offer: LoanOffer,
    facts: MarketFacts,
    *,
    policy: LoanPolicy,
    actor: Actor,
    at: datetime,
) -> QuotaLoan:
    size, cluster_id = market
    wait = next(wait for wait in facts.waits if wait.project_id == offer.borrower_id)
    loan = QuotaLoan.objects.create(
        organization_id=organization_id,
        lender_id=offer.lender_id,
        borrower_id=offer.borrower_id,
        size=size.value,
        cluster_id=cluster_id,
        units=offer.units,
        end_at=at + timedelta(days=policy.max_days),
        lender_idle_units=spare_units(
            facts.capacities[offer.lender_id], keep_free_percent=policy.keep_free_percent
        ),
        borrower_missing_units=missing_units(facts.capacities[offer.borrower_id], wait),
        created_at=at,
    )
    record_loan(loan, "propose", actor=actor, at=at)
    if policy.mode == LoanMode.PROPOSE:
        notify_loan(loan, at=at)
    return loan


def _approve(loan: QuotaLoan, *, terms: LendingTerms, actor: Actor, at: datetime) -> bool:
    """Approve by policy; what the tree of limits refuses stays proposed for a person to see."""
    try:
        with transaction.atomic():
            approve_loan(loan_id=loan.pk, terms=terms, actor=actor, at=at)
    except DomainError as error:
        log.info("quotas.loan.needs_review", loan=str(loan.pk), code=error.code)
        return False
    return True
