"""Whether drafts that become final are still what would be drafted now."""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from uuid import UUID

from django.db import connection

from billing.domain.documents.composing import TermFacts
from billing.domain.documents.document import InvoiceTerms
from billing.domain.documents.hardware_credits import credit_amounts
from billing.domain.documents.invoicing import compose_lines
from billing.domain.documents.minimums import minimum_amounts
from billing.domain.documents.taxes import tax_point_of
from billing.domain.documents.tiers import TierKey, tier_amounts
from billing.domain.errors import DraftStaleError
from billing.models import BillingPeriod, Invoice, InvoiceLine
from billing.selectors.documents.invoices import charge_sums
from billing.selectors.documents.membership import BILLED, KEYED
from billing.selectors.documents.routing import route_of
from billing.selectors.documents.taxes import treatments_of
from billing.selectors.documents.terms import term_facts_of
from billing.services.carrying import require_carried
from billing.services.composing import billing_of, require_parties, require_tax
from tenants.models import Organization


def require_same(
    invoices: Sequence[Invoice],
    notes: Sequence[Invoice],
    period: BillingPeriod,
    organization: Organization,
    *,
    terms: InvoiceTerms,
    facts: TermFacts | None = None,
) -> None:
    """Refuse drafts of a run that are not what they would be now.

    Args:
        invoices: What the run bills.
        notes: Its credit note, where it replaces an invoice.
        period: The period, locked.
        organization: Whose it is, locked.
        terms: Issuer of the site.
        facts: What lines of terms are computed from; None to read it.

    Raises:
        DraftStaleError: Charges, terms, routes, parties or taxes are no longer those of the drafts.
        TaxRateMissingError: The organization's tax treatment has no rate at the tax point.
    """
    projects = None
    if notes:
        of_voided = InvoiceLine.objects.filter(invoice=notes[0].corrects_id).order_by()
        projects = set(of_voided.values_list("project_id", flat=True))
    _require_fresh(invoices, period, projects=projects)
    only = None if projects is None else {str(project) for project in projects}
    payer, own_ids = period.organization_id, [invoice.pk for invoice in invoices]
    facts = facts or term_facts_of({payer: invoices[0].currency}, own_ids=own_ids)[payer]
    for require in (_require_tiers, _require_minimums, _require_credits):
        require(invoices, period, facts, only=only)
    require_carried(invoices, period, terms=terms)
    treatment = treatments_of([payer], tax_point=tax_point_of(period.label)).get(payer)
    for invoice in invoices:
        route = route_of(invoice)
        billing = billing_of(route, period, organization, treatment=treatment, terms=terms)
        require_parties(invoice, billing)
        require_tax(invoice, billing)


def _require_fresh(
    invoices: Sequence[Invoice], period: BillingPeriod, *, projects: Collection[UUID] | None
) -> None:
    """Hold the lines of a run equal to the charges with their keys, and each where it is routed."""
    values = {
        "invoices": [invoice.pk for invoice in invoices],
        "run": invoices[0].run,
        "projects": None if projects is None else list(projects),
        "period": period.pk,
        "periods": [period.pk],
        "begin_at": period.hours.lower,
        "organizations": [period.organization_id],
        "replaced": None,
    }
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERENCES, values)
        differences, misrouted, noted = cursor.fetchone()
    if noted and not differences:
        differences = _other_amounts(invoices, period)
    if differences:
        raise DraftStaleError(
            "The charges of the period have changed since the draft was made.",
            facts={"differences": differences},
        )
    if misrouted:
        raise DraftStaleError(
            "Projects are routed to other documents since the draft was made.",
            facts={"changed": "routes", "lines": misrouted},
        )


def _other_amounts(invoices: Sequence[Invoice], period: BillingPeriod) -> int:
    """Return how many lines of use have another amount than they would have now.

    Credit and debit notes can cancel each other in what is billed, and yet change what is owed.
    """
    currency = invoices[0].currency
    names = ("project_id", "size", "price_group", "unit_price", "service_period_id")
    due = {
        (line.project_id, line.size, line.price_group, line.unit_price, line.service_period_id): (
            line.amount.amount
        )
        for line in compose_lines(charge_sums(period), currency=currency)
    }
    lines = InvoiceLine.objects.filter(invoice__in=list(invoices), kind="usage")
    return sum(
        due[str(project), size, group, price, str(month or "")] != amount
        for project, size, group, price, month, amount in lines.values_list(*names, "amount")
    )


def _require_tiers(
    invoices: Sequence[Invoice],
    period: BillingPeriod,
    facts: TermFacts,
    *,
    only: AbstractSet[str] | None,
) -> None:
    """Refuse drafts whose tier lines are not what schedules and final documents make them now."""
    by_id, currency = {invoice.pk: invoice for invoice in invoices}, invoices[0].currency
    tiers = facts.tiers
    due = tier_amounts(tiers, tiers.own_use, month=period.label, currency=currency, only=only)
    lines = {
        TierKey(
            str(line.tier_schedule_id), line.tier_span, line.tier_band, str(line.project_id)
        ): by_id[line.invoice_id].document["lines"][line.position - 1]["tier"]
        for line in InvoiceLine.objects.filter(invoice__in=list(by_id), kind="tier")
    }
    is_same = {key: share.amount.amount for key, share in due.items()} == tiers.own
    if not is_same or {key: {**share.shown} for key, share in due.items()} != lines:
        raise DraftStaleError(
            "Tier schedules, or what is billed of them, have changed since the draft was made.",
            facts={"changed": "tiers"},
        )


def _require_minimums(
    invoices: Sequence[Invoice],
    period: BillingPeriod,
    facts: TermFacts,
    *,
    only: AbstractSet[str] | None,
) -> None:
    """Refuse drafts whose minimum lines are not what minimum charges make them now."""
    currency, minimums = invoices[0].currency, facts.minimums
    due = minimum_amounts(
        minimums, minimums.own_net or {}, month=period.label, currency=currency, only=only
    )
    if {key: share.amount.amount for key, share in due.items()} != (minimums.own or {}):
        raise DraftStaleError(
            "Minimum charges, or what is billed of them, have changed since the draft was made.",
            facts={"changed": "minimums"},
        )


def _require_credits(
    invoices: Sequence[Invoice],
    period: BillingPeriod,
    facts: TermFacts,
    *,
    only: AbstractSet[str] | None,
) -> None:
    """Refuse drafts whose credit lines are not what accepted credits make them now."""
    currency, credited = invoices[0].currency, facts.credited
    due = credit_amounts(credited, month=period.label, currency=currency, only=only)
    is_same = {key: share.amount.amount for key, share in due.items()} == credited.own
    printed = [
        line["credit"]
        for invoice in invoices
        for line in invoice.document["lines"]
        if "credit" in line
    ]
    shown = [{**share.shown} for share in due.values()]
    if not is_same or sorted(map(str, printed)) != sorted(map(str, shown)):
        raise DraftStaleError(
            "Credits for broken hardware were accepted or corrected since the draft was made.",
            facts={"changed": "credits"},
        )


_DIFFERENCES = f"""
WITH {KEYED},
{BILLED},
own AS MATERIALIZED (
  SELECT * FROM billing_invoiceline WHERE invoice_id = ANY (%(invoices)s)
),
lines AS (SELECT * FROM own WHERE kind = 'usage'),
printed AS MATERIALIZED (
  SELECT i.id, (d ->> 'position')::int AS position,
         (d ->> 'billed_amount')::numeric + coalesce((d ->> 'notes_amount')::numeric, 0) AS billed
    FROM billing_invoice i CROSS JOIN LATERAL jsonb_array_elements(i.document -> 'lines') d
   WHERE i.id = ANY (%(invoices)s) AND d ? 'billed_amount'
)
SELECT (SELECT count(*)
          FROM (SELECT * FROM keyed
                 WHERE %(projects)s::uuid[] IS NULL OR project_id = ANY (%(projects)s)) k
          FULL JOIN lines l
            ON (l.project_id, l.size, l.price_group, l.unit_price,
                coalesce(l.service_period_id, %(period)s))
               = (k.project_id, k.size, k.price_group, k.unit_price,
                  coalesce(k.month_id, %(period)s))
         WHERE k.unit_seconds IS DISTINCT FROM l.unit_seconds)
     + (SELECT count(*) FROM lines l
          LEFT JOIN billed b
            ON (b.project_id, b.size, b.price_group, b.unit_price, b.period_id)
               = (l.project_id, l.size, l.price_group, l.unit_price,
                  coalesce(l.service_period_id, %(period)s))
          LEFT JOIN printed p ON (p.id, p.position) = (l.invoice_id, l.position)
         WHERE (l.billed_unit_seconds, coalesce(p.billed, 0))
               <> (coalesce(b.unit_seconds, 0), coalesce(b.amount, 0)))
     + (SELECT count(*) FROM billing_invoice i
          LEFT JOIN (
           SELECT invoice_id, sum(amount) AS total, sum(unit_seconds)::bigint AS unit_seconds
             FROM own GROUP BY 1) added ON added.invoice_id = i.id
         WHERE i.id = ANY (%(invoices)s)
           AND (i.total, i.unit_seconds)
               IS DISTINCT FROM (added.total, added.unit_seconds)),
       (SELECT count(*) FROM own l
          JOIN billing_invoice i ON i.id = l.invoice_id
          LEFT JOIN billing_runroute r
            ON (r.period_id, r.run, r.project_id) = (%(period)s, %(run)s, l.project_id)
         WHERE i.id = ANY (%(invoices)s)
           AND (r.issuer_id, r.recipient_id, coalesce(r.purchase_order, ''))
               IS DISTINCT FROM (i.issuer_id, i.recipient_id, i.purchase_order)),
       EXISTS (SELECT FROM lines l JOIN billed b
                 ON (b.project_id, b.size, b.price_group, b.unit_price, b.period_id)
                    = (l.project_id, l.size, l.price_group, l.unit_price,
                       coalesce(l.service_period_id, %(period)s))
                WHERE b.notes IS NOT NULL)
"""  # noqa: S608 - Put together from constants only.
