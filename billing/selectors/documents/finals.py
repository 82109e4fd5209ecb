"""What drafts are held against before they become final, read for many months in one go."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Count

from billing.domain.documents.composing import TermFacts
from billing.domain.documents.invoicing import InvoiceState
from billing.models import BillingPeriod, Invoice, PeriodState
from billing.selectors.closing import readiness_of_periods, reasons_against
from billing.selectors.documents.invoices import usual_totals
from billing.selectors.documents.terms import term_facts_of
from tenants.domain.errors import FieldProblem


@dataclass(frozen=True)
class FinalReading:
    """What the drafts of a month are held against.

    Attributes:
        versions: Of the drafts that were read, by their id.
        finals: How many final documents the organization had: their lines count for its terms.
        problems: Why an open month cannot be invoiced yet; a month in review takes no charges.
        usual: What the organization pays for a month; None without a month to compare.
        facts: What the lines of tiers, minimum charges and credits are computed from.
    """

    versions: Mapping[UUID, int]
    finals: int
    problems: tuple[FieldProblem, ...]
    usual: Decimal | None
    facts: TermFacts

    def is_of(self, run: Sequence[Invoice], *, finals: int) -> bool:
        """Whether it was read of these drafts, with no document of theirs final since."""
        return finals == self.finals and self.versions == {row.pk: row.version for row in run}


def read_final(
    period: BillingPeriod, drafts: Sequence[Invoice], *, finals: int, at: datetime
) -> FinalReading:
    """Return what the drafts of a month's first run, which are locked, are held against.

    Args:
        period: The month.
        drafts: All of the run.
        finals: As `final_documents` counts them.
        at: Now.
    """
    return _read_alike([period], {period.pk: drafts}, {period.organization_id: finals}, at=at)[
        period.pk
    ]


def read_finals(invoice_ids: Collection[UUID], *, at: datetime) -> dict[UUID, FinalReading]:
    """Return what drafts are held against, by the id of each; those that cannot be are missing.

    Months with one label are read together, in as many statements as one alone. Documents of
    further runs, which replace others, are read one by one when they become final.

    Args:
        invoice_ids: Drafts; others are left out.
        at: Now.
    """
    asked = Invoice.objects.filter(pk__in=invoice_ids, run=1).order_by().values("period")
    drafts: defaultdict[UUID, list[Invoice]] = defaultdict(list)
    first_runs = Invoice.objects.filter(period__in=asked, run=1, state=InvoiceState.DRAFT.value)
    for draft in first_runs.order_by():
        drafts[draft.period_id].append(draft)
    months: defaultdict[str, list[BillingPeriod]] = defaultdict(list)
    for period in BillingPeriod.objects.filter(pk__in=drafts):
        months[period.label].append(period)
    found: dict[UUID, FinalReading] = {}
    for alike in months.values():
        # They are counted before anything is read: what becomes final meanwhile changes the count.
        finals = final_documents([period.organization_id for period in alike])
        found |= _read_alike(alike, drafts, finals, at=at)
    return {draft.pk: found[key] for key, rows in drafts.items() for draft in rows if key in found}


def final_documents(organization_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return how many final documents organizations have; one statement."""
    finals = Invoice.objects.filter(
        organization__in=organization_ids, state=InvoiceState.FINAL.value
    )
    counts = finals.order_by().values_list("organization").annotate(documents=Count("pk"))
    return {**dict.fromkeys(organization_ids, 0), **dict(counts)}


def _read_alike(
    periods: Sequence[BillingPeriod],
    drafts: Mapping[UUID, Sequence[Invoice]],
    finals: Mapping[UUID, int],
    *,
    at: datetime,
) -> dict[UUID, FinalReading]:
    """Return the readings of months with one label, by their id."""
    payers = [period.organization_id for period in periods]
    still_open = [period for period in periods if period.state == PeriodState.OPEN]
    readiness = readiness_of_periods(still_open, at=at)
    usual = usual_totals(payers, label=periods[0].label) if still_open else {}
    facts = term_facts_of(
        {period.organization_id: drafts[period.pk][0].currency for period in periods},
        own_ids=[draft.pk for period in periods for draft in drafts[period.pk]],
    )
    return {
        period.pk: FinalReading(
            versions={draft.pk: draft.version for draft in drafts[period.pk]},
            finals=finals[period.organization_id],
            problems=(
                reasons_against(period, readiness[period.pk], at=at)
                if period.pk in readiness
                else ()
            ),
            usual=usual.get((period.organization_id, drafts[period.pk][0].currency)),
            facts=facts[period.organization_id],
        )
        for period in periods
    }
