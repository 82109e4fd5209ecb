"""Loans between projects: decided, recalled and ended, with their trail; always both halves."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from quotas.domain.errors import QuotaLoanOutdatedError
from quotas.domain.lending import LoanMove, may_borrow_units, next_loan_state, spare_units
from quotas.domain.limits.input import note_problems, refuse_problems
from quotas.models import GrantReason, LoanState, QuotaGrant, QuotaLoan
from quotas.selectors.lending import LendingTerms, band_of, loan_policy, market_facts
from quotas.selectors.locks import lock_limit_paths
from quotas.services.limits.changes import GrantDraft, grant_together
from quotas.services.limits.grants import end_together
from tenants.access import require_capability
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import NotFoundError
from tenants.domain.identity.roles import Role
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.notifications.outbox import notify

WORDS: Final = {
    LoanState.PROPOSED: "could lend",
    LoanState.ACTIVE: "lends",
    LoanState.DECLINED: "does not lend",
    LoanState.ENDED: "has back",
    LoanState.RECALLED: "has recalled",
}
"""Events that are notified; a lapsed proposal is not."""


def record_loan(loan: QuotaLoan, verb: str, *, actor: Actor, at: datetime) -> None:
    """Write the audit entry of a loan's change."""
    record(
        actor=actor,
        at=at,
        action=f"quotas:loan:{verb}",
        object_kind="quota_loan",
        object_id=loan.pk,
        organization_id=loan.organization_id,
        facts={
            "lender_id": str(loan.lender_id),
            "borrower_id": str(loan.borrower_id),
            "size": loan.size,
            "units": loan.units,
            "end_at": loan.end_at.isoformat(),
            "state": str(loan.state),
            "is_automatic": loan.is_automatic,
        },
    )


def notify_loan(loan: QuotaLoan, *, at: datetime) -> None:
    """Notify administrators of the organization and leads of both projects of a loan, each once."""
    words = WORDS.get(LoanState(loan.state))
    if words is None:
        return
    line = f"{loan.lender.name} {words} {loan.units} {loan.size} ({loan.borrower.name})"
    until = f"Until {loan.end_at:%Y-%m-%d %H:%M} UTC." if loan.state == LoanState.ACTIVE else ""
    notify(
        event=f"quotas:loan:{loan.state}",
        organization_id=loan.organization_id,
        subject=line,
        text="\n".join(filter(None, [f"{line}.", until, loan.note])),
        facts={"loan": str(loan.pk), "units": loan.units, "size": loan.size},
        roles=(Role.PROJECT_LEAD, Role.ORGANIZATION_ADMIN),
        project_ids=(loan.lender_id, loan.borrower_id),
        key=f"quotas:loan:{loan.pk}:{loan.state}",
        at=at,
    )


WRITE = "quotas:limit:write"


@transaction.atomic
def approve_loan(
    *, loan_id: UUID, note: str = "", terms: LendingTerms, actor: Actor, at: datetime
) -> QuotaLoan:
    """Put a proposed loan into force: lower the lender and raise the borrower in one step.

    Approving again changes nothing. It lasts as long as the organization's policy says from now.

    Args:
        loan_id: Which loan.
        note: Why; it may be empty.
        terms: The settings for idleness.
        actor: An account that may write the limits of the organization's projects.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such loan.
        ForbiddenError: The actor may not write these limits.
        QuotaInputError: The note cannot be kept.
        QuotaLoanDecidedError: It was declined, has lapsed or is over.
        QuotaLoanOutdatedError: The lender no longer holds so much idle, the borrower would borrow
            more than was agreed, or a limit is gone.
        QuotaHierarchyBrokenError: The tree of limits would not hold; every violation is reported.
    """
    loan = _locked(loan_id, note=note, actor=actor)
    if not _moves(loan, LoanMove.APPROVE):
        return loan
    policy = loan_policy(loan.organization_id)
    limit_ids = _lendable_limits(loan, terms=terms, at=at)
    loan.begin_at, loan.end_at = at, at + timedelta(days=policy.max_days)
    loan.is_automatic = actor.is_system
    grant_together(
        drafts=[
            GrantDraft(
                limit_id,
                units,
                begin_at=at,
                end_at=loan.end_at,
                reason=GrantReason.LOAN,
                reference=str(loan.pk),
            )
            for limit_id, units in zip(limit_ids, (-loan.units, loan.units), strict=True)
        ],
        actor=actor,
        at=at,
    )
    return _decide(loan, LoanMove.APPROVE, note=note, actor=actor, at=at)


@transaction.atomic
def decline_loan(*, loan_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaLoan:
    """Decline a proposed loan; the same loan is not proposed again for a week.

    Raises:
        NotFoundError: There is no such loan.
        ForbiddenError: The actor may not write these limits.
        QuotaInputError: The note cannot be kept.
        QuotaLoanDecidedError: It is in force, has lapsed or is over.
    """
    loan = _locked(loan_id, note=note, actor=actor)
    if not _moves(loan, LoanMove.DECLINE):
        return loan
    return _decide(loan, LoanMove.DECLINE, note=note, actor=actor, at=at)


@transaction.atomic
def recall_loan(*, loan_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaLoan:
    """End a loan early: both halves end now. What the borrower's pods hold beyond stays held.

    Raises:
        NotFoundError: There is no such loan.
        ForbiddenError: The actor may not write these limits.
        QuotaInputError: The note cannot be kept.
        QuotaLoanDecidedError: It is not in force.
        QuotaHierarchyBrokenError: The tree would break its rules without the loan; all violations
            are reported.
    """
    loan = _locked(loan_id, note=note, actor=actor)
    if not _moves(loan, LoanMove.RECALL):
        return loan
    grants = QuotaGrant.objects.filter(
        reason=GrantReason.LOAN, reference=str(loan.pk), valid__contains=at
    )
    ids = list(grants.order_by("units").values_list("pk", flat=True))
    if ids:
        end_together(grant_ids=ids, actor=actor, at=at)
    loan.end_at = min(loan.end_at, at)
    return _decide(loan, LoanMove.RECALL, note=note, actor=actor, at=at)


@transaction.atomic
def lapse_loan(*, loan_id: UUID, actor: Actor, at: datetime) -> QuotaLoan:
    """Withdraw a proposal that would no longer help; no limit changes.

    Raises:
        NotFoundError: There is no such loan.
        QuotaLoanDecidedError: It was decided.
    """
    loan = _locked(loan_id, note="", actor=actor)
    if not _moves(loan, LoanMove.LAPSE):
        return loan
    return _decide(loan, LoanMove.LAPSE, note="", actor=actor, at=at)


@transaction.atomic
def end_loan(*, loan_id: UUID, actor: Actor, at: datetime) -> QuotaLoan:
    """Close an expired loan; its grants have ended already.

    Raises:
        NotFoundError: There is no such loan.
        ValueError: Its time is not over.
        QuotaLoanDecidedError: It is not in force.
    """
    loan = _locked(loan_id, note="", actor=actor)
    if not _moves(loan, LoanMove.END):
        return loan
    if loan.end_at > at:
        raise ValueError("A loan in force is recalled, not ended.")
    return _decide(loan, LoanMove.END, note=loan.note, actor=actor, at=at)


def _locked(loan_id: UUID, *, note: str, actor: Actor) -> QuotaLoan:
    """Return a loan, locked after its organization and its projects, that the actor may decide."""
    refuse_problems(note_problems(note))
    found = QuotaLoan.objects.filter(pk=loan_id).first()
    if found is None:
        raise NotFoundError("There is no such quota loan.")
    require_capability(actor, WRITE, organization_id=found.organization_id)
    lock_limit_paths(
        organization_id=found.organization_id,
        project_ids=[found.lender_id, found.borrower_id],
        user_ids=[],
    )
    (loan,) = lock_rows(QuotaLoan.objects.filter(pk=loan_id))
    return loan


def _moves(loan: QuotaLoan, move: LoanMove) -> bool:
    return next_loan_state(loan.state, move) != loan.state


def _lendable_limits(loan: QuotaLoan, *, terms: LendingTerms, at: datetime) -> tuple[UUID, UUID]:
    """Return the lender's and the borrower's limit, if the lender still holds so much idle."""
    facts = market_facts(loan.organization_id, terms=terms, at=at)
    market = next(
        (
            found
            for (size, cluster_id), found in facts.items()
            if (size.value, cluster_id) == (loan.size, loan.cluster_id)
        ),
        None,
    )
    if market is None or not {loan.lender_id, loan.borrower_id} <= set(market.capacities):
        raise QuotaLoanOutdatedError("A limit of the lender or of the borrower is gone.")
    band = band_of(loan_policy(loan.organization_id))
    capacity = market.capacities[loan.lender_id]
    idle = spare_units(capacity, keep_free_percent=band.keep_free_percent)
    if idle < loan.units:
        raise QuotaLoanOutdatedError(
            f"The lender can spare {idle} now, not {loan.units}.",
            facts={"idle_units": idle, "units": loan.units},
        )
    more = may_borrow_units(market.capacities[loan.borrower_id], band=band)
    if more < loan.units:
        raise QuotaLoanOutdatedError(
            f"The borrower may borrow {more} more, not {loan.units}.",
            facts={"may_borrow_units": more, "units": loan.units},
        )
    return market.limit_ids[loan.lender_id], market.limit_ids[loan.borrower_id]


def _decide(loan: QuotaLoan, move: LoanMove, *, note: str, actor: Actor, at: datetime) -> QuotaLoan:
    loan.state = LoanState(next_loan_state(loan.state, move))
    if actor.kind is ActorKind.PERSON:
        loan.decided_by_id = int(actor.id)
    loan.decided_at = at
    loan.note = note
    loan.version += 1
    loan.save(
        update_fields=[
            "state",
            "begin_at",
            "end_at",
            "is_automatic",
            "decided_by",
            "decided_at",
            "note",
            "version",
        ]
    )
    record_loan(loan, move.value, actor=actor, at=at)
    notify_loan(loan, at=at)
    return loan
