"""Builders of what comes late: corrections of sealed windows, posted as metering posts them."""

from datetime import datetime

from billing.domain.documents.document import InvoiceTerms
from billing.models import BillingPeriod, Invoice
from billing.services.accrual import accrue_corrections
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from metering.domain.corrections.correction import CorrectionCause, CorrectionState
from metering.models import MeteringWindow, UsageCorrection
from metering.selectors.corrections.ledger import Line, ledger_of_window
from metering.services.corrections.posting import Draft, write_drafts
from tenants.domain.actors import system_actor
from tenants.models import Organization, Project
from tests.support.billing.ledger import DORA, ERIC, HOUR, SMALL_GROUP, TICK
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

METERING = system_actor("metering.rechecks")


def correct(
    window: MeteringWindow,
    project: Project,
    *deltas: int,
    owner: str = "carol",
    size: str = "small",
    state: CorrectionState = CorrectionState.POSTED,
) -> UsageCorrection:
    """Return a correction of a window that adds pods' use, or takes use from the window's pods.

    Args:
        window: A sealed one.
        project: Whose use it is.
        deltas: One record each: a new pod for use, the next pod in the ledger for what is taken.
        owner: Whose pods.
        size: Of new pods.
        state: Proposed or posted.
    """
    held = [
        fact
        for fact in ledger_of_window(window.pk, start_at=window.start_at).values()
        if fact.line["project_id"] == str(project.pk) and fact.unit_seconds > 0
    ]
    lines: list[Line] = []
    for number, delta in enumerate(deltas):
        if delta < 0:
            fact = held.pop(0)
            line = {**fact.line, "basis": fact.unit_seconds}
        else:
            line = _new(window, project, f"late-{window.corrections.count()}-{number}", owner, size)
        lines.append({**line, "unit_seconds": delta})
    cause = CorrectionCause.LATE_DATA if min(deltas) > 0 else CorrectionCause.MANUAL
    draft = Draft(window=window, cause=cause, reason="For a test.", lines=lines)
    (made,) = write_drafts([draft], state=state, actor=METERING, at=AT)
    return made


def _new(window: MeteringWindow, project: Project, uid: str, owner: str, size: str) -> Line:
    end_at = window.start_at + HOUR
    return {
        "organization_id": str(project.organization_id),
        "project_id": str(project.pk),
        "owner": owner,
        "namespace": "ns",
        "pod_name": "late",
        "pod_uid": f"{project.slug}-{uid}",
        "resource": "nvidia_com_gpu",
        "node": "node-1",
        "size": size,
        "price_group": SMALL_GROUP,
        "sharing_mode": "whole",
        "share_numerator": 1,
        "share_denominator": 1,
        "units": 1,
        "split_among": 1,
        "begin_at": window.start_at.isoformat(),
        "end_at": end_at.isoformat(),
        "seconds": 3600,
        "end_kind": "exact",
        "slack_seconds": 0,
        "catalogue_version": 1,
        "busy_ratio": None,
        "busy_coverage": None,
        "energy_millijoules": None,
        "basis": 0,
    }


def accrue_late(*corrections: UsageCorrection, at: datetime = AT) -> int:
    """Accrue corrections; return how many charges were new."""
    done = accrue_corrections(correction_ids=[c.pk for c in corrections], actor=TICK, at=at)
    return done.charges


def draft(organization: Organization, label: str, *, at: datetime = AT) -> Invoice:
    """Return a month's draft by Dora."""
    period = BillingPeriod.objects.get(organization=organization, label=label)
    return draft_invoice(period_id=period.pk, actor=DORA, at=at, terms=SITE_TERMS)


def finalize(invoice: Invoice, *, at: datetime = AT, terms: InvoiceTerms = SITE_TERMS) -> Invoice:
    """Return the invoice, final by Eric."""
    return finalize_invoice(invoice_id=invoice.pk, actor=ERIC, at=at, terms=terms)


def reported(invoice: Invoice) -> list[tuple[str, int, str]]:
    """Return description, unit-seconds and amount of each line, in order."""
    return [
        (line["description"], line["unit_seconds"], line["amount"])
        for line in invoice.document["lines"]
    ]
