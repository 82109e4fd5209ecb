"""Loans of quota and their policies: fetched with permission."""

from uuid import UUID

from django.db.models import Q, QuerySet

from quotas.access.capabilities import READ_LIMIT
from quotas.access.limits import organizations_with_limits
from quotas.models import LoanPolicy, QuotaLoan
from tenants.access import access_row, projects_visible_to
from tenants.domain.actors import Actor


def loans_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLoan]:
    """Return the loans of the projects over which an actor holds a capability, on either side."""
    projects = projects_visible_to(actor, capability)
    return QuotaLoan.objects.select_related(
        "organization", "lender", "borrower", "decided_by"
    ).filter(Q(lender__in=projects) | Q(borrower__in=projects))


def loan_policies_visible_to(actor: Actor) -> QuerySet[LoanPolicy]:
    """Return what was agreed in the organizations of which an actor may read a limit."""
    return LoanPolicy.objects.filter(organization__in=organizations_with_limits(actor))


def access_loan(actor: Actor, loan_id: UUID, capability: str) -> QuotaLoan:
    """Return a loan between projects over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaLoan.objects.select_related("organization", "lender", "borrower", "decided_by"),
        loan_id,
        visible_to=loans_visible_to,
        actor=actor,
        capability=capability,
    )
