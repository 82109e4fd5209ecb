"""What is left behind by a loan: its entry in the audit trail, and the news to who it concerns."""

from datetime import datetime
from typing import Final

from quotas.models import LoanState, QuotaLoan
from tenants.domain.actors import Actor
from tenants.domain.roles import Role
from tenants.services.audit import record
from tenants.services.notifications import notify

WORDS: Final = {
    LoanState.PROPOSED: "could lend",
    LoanState.ACTIVE: "lends",
    LoanState.DECLINED: "does not lend",
    LoanState.ENDED: "has back",
    LoanState.RECALLED: "has recalled",
}
"""What is told; that a proposal lapsed is news to nobody."""


def record_loan(loan: QuotaLoan, verb: str, *, actor: Actor, at: datetime) -> None:
    """Leave the entry of what happened to a loan."""
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
    """Tell administrators of the organization and leads of both projects, each once, of a loan."""
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
