"""Loans of the estate, and the calls that move them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from metering.domain.efficiency.rules import WasteThresholds
from quotas.models import LoanPolicy, QuotaLimit, QuotaLoan
from quotas.selectors.lending import LendingTerms
from quotas.services.lending import loans, proposals
from tenants.models import Organization, Project
from tests.support.builders import AT, MONTH_START, make_project
from tests.support.quotas.builders import make_limit

TERMS: Final = LendingTerms(burst_classes=(), thresholds=WasteThresholds())
MADE: Final = [("quotas:grant:make", "acme")] * 2


def make_loan(organization: Organization, project: Project) -> UUID:
    """Return a proposed loan of a large unit to another project; its organization has a policy."""
    others = Project.objects.filter(organization=organization).exclude(pk=project.pk)
    borrower = others.first() or make_project(organization, f"{project.slug}-two")
    make_limit(organization, borrower, units=4)
    QuotaLimit.objects.filter(project=project).update(changed_at=MONTH_START)
    LoanPolicy.objects.create(organization=organization, changed_at=AT)
    made = QuotaLoan.objects.create(
        organization=organization,
        lender=project,
        borrower=borrower,
        size="large",
        units=1,
        end_at=AT + timedelta(days=7),
        lender_idle_units=4,
        borrower_missing_units=1,
        created_at=AT,
    )
    return made.pk


def loan_of(estate: Any, **state: Any) -> Any:  # noqa: ANN401 - The estate imports this module.
    """Return the key of Acme's loan, brought into a state."""
    pk = estate.places["own"]["quota-loans"]
    if state:
        QuotaLoan.objects.filter(pk=pk).update(**state)
    return pk


def _agree(estate: Any, who: Any) -> object:  # noqa: ANN401 - As above.
    return proposals.set_loan_policy(
        organization=estate.cast.acme,
        mode="off",
        max_units=1,
        max_days=1,
        keep_free_percent=0,
        **who,
    )


LOAN_DEEDS: Final[dict[str, tuple[Callable[[Any, Any], object], list[tuple[str, str | None]]]]] = {
    "quotas.lending.loans.approve_loan": (
        lambda e, who: loans.approve_loan(loan_id=loan_of(e), terms=TERMS, **who),
        [*MADE, ("quotas:loan:approve", "acme")],
    ),
    "quotas.lending.loans.decline_loan": (
        lambda e, who: loans.decline_loan(loan_id=loan_of(e), **who),
        [("quotas:loan:decline", "acme")],
    ),
    "quotas.lending.loans.lapse_loan": (
        lambda e, who: loans.lapse_loan(loan_id=loan_of(e), **who),
        [("quotas:loan:lapse", "acme")],
    ),
    "quotas.lending.loans.recall_loan": (
        lambda e, who: loans.recall_loan(
            loan_id=loan_of(e, state="active", begin_at=MONTH_START), **who
        ),
        [("quotas:loan:recall", "acme")],
    ),
    "quotas.lending.loans.end_loan": (
        lambda e, who: loans.end_loan(
            loan_id=loan_of(e, state="active", begin_at=MONTH_START, end_at=MONTH_START), **who
        ),
        [("quotas:loan:end", "acme")],
    ),
    "quotas.lending.proposals.set_loan_policy": (_agree, [("quotas:loan_policy:set", "acme")]),
}
"""What administrators do: each call, and the entries it leaves."""
