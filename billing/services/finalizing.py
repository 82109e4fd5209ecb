"""Finalizing invoices: number, frozen document, linked charges and closed period, all or nothing.

The database refuses every later change of what is written here.
"""

from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from billing.domain.document import STANDARD_TERMS, InvoiceTerms, digest_of, issue_document
from billing.domain.errors import DraftStaleError, FourEyesError, InvoiceNegativeError
from billing.domain.invoicing import InvoiceMove, InvoiceState, require_move
from billing.models import BillingPeriod, Invoice, PeriodState
from billing.selectors.locks import lock_invoice, lock_organization, lock_period
from billing.services.invoicing import require_ready
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.changing import require_version

LOCK_TIMEOUT_MS = 15_000
"""How long one finalization waits for another of the same period: linking 150,000 charges takes
seconds, and the second call then finds the invoice final and changes nothing."""


def finalize_invoice(
    *,
    invoice_id: UUID,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms = STANDARD_TERMS,
    expected_version: int | None = None,
) -> Invoice:
    """Return the invoice, final: a second call changes nothing.

    The number is taken by the last lock, so that a rolled-back finalization leaves no gap.

    Args:
        invoice_id: A draft, or an invoice that is final already.
        actor: The account that finalizes.
        at: When; printed as the date of the invoice.
        terms: Whether the four-eyes rule applies.
        expected_version: The version of the draft that the caller saw; None for any.

    Raises:
        StaleVersionError: It was drafted again since.
        FourEyesError: The actor drafted it, and the four-eyes rule applies.
        PeriodNotReadyError: Something came up since the draft; every reason is under `problems`.
        InvoiceNegativeError: Its total is below zero.
        DraftStaleError: The period's charges are no longer those of the draft.
        Invoice.DoesNotExist: There is none.
    """
    period_id = Invoice.objects.values_list("period", flat=True).get(pk=invoice_id)
    with transaction.atomic():
        _wait_longer()
        prefer_hash_joins()
        period = lock_period(period_id)
        lock_organization(period.organization_id)
        invoice = lock_invoice(invoice_id)
        if invoice.state == InvoiceState.FINAL.value:
            return invoice
        require_move(invoice.state, InvoiceMove.FINALIZE, reference=invoice.reference)
        require_version(row=invoice, expected_version=expected_version, actor=actor)
        _require_four_eyes(invoice, actor=actor, terms=terms)
        require_ready(period, at=at)
        _require_amount(invoice)
        _link_charges(invoice)
        _freeze(invoice, actor=actor, at=at)
        _close(period, at=at)
        record(
            actor=actor,
            at=at,
            action="billing:invoice:finalize",
            object_kind="invoice",
            object_id=invoice.pk,
            organization_id=invoice.organization_id,
            facts={
                "reference": invoice.reference,
                "total": invoice.document["total"]["amount"],
                "currency": invoice.currency,
                "content_sha256": invoice.content_sha256,
            },
        )
    return invoice


def _wait_longer() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_TIMEOUT_MS}ms"])


def _require_four_eyes(invoice: Invoice, *, actor: Actor, terms: InvoiceTerms) -> None:
    if terms.is_four_eyes and invoice.drafted_by_id == actor.id:
        raise FourEyesError(
            "The drafter of an invoice may not finalize it.",
            facts={"drafted_by": invoice.drafted_by},
        )


def _require_amount(invoice: Invoice) -> None:
    if invoice.total < 0:
        raise InvoiceNegativeError(
            "Corrections give back more than the month has used.",
            facts={"total": invoice.document["total"]["amount"], "currency": invoice.currency},
        )


def _link_charges(invoice: Invoice) -> None:
    """Give every charge of the period its line, and hold the lines equal to their charges."""
    given = {
        "invoice": invoice.pk,
        "period": invoice.period_id,
        "organization": invoice.organization_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LINK, given)
        cursor.execute(_DIFFERENCES, given)
        (differences,) = cursor.fetchone()
    if differences:
        raise DraftStaleError(
            "The charges of the period have changed since the draft was made.",
            facts={"differences": differences},
        )


def _freeze(invoice: Invoice, *, actor: Actor, at: datetime) -> None:
    invoice.number = _take_number(invoice.series)
    invoice.document = issue_document(invoice.document, reference=invoice.reference, issued_at=at)
    invoice.content_sha256 = digest_of(invoice.document)
    invoice.state = InvoiceState.FINAL.value
    invoice.finalized_by, invoice.finalized_at = actor.label, at
    invoice.version += 1
    invoice.save(
        update_fields=[
            "number",
            "document",
            "content_sha256",
            "state",
            "finalized_by",
            "finalized_at",
            "version",
        ]
    )


def _take_number(series: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_NUMBER, [series])
        (number,) = cursor.fetchone()
    return int(number)


def _close(period: BillingPeriod, *, at: datetime) -> None:
    period.state, period.closed_at = PeriodState.CLOSED.value, at
    period.save(update_fields=["state", "closed_at"])


_NEXT_NUMBER = """
INSERT INTO billing_invoiceseries AS s (code, next_number) VALUES (%s, 2)
ON CONFLICT (code) DO UPDATE SET next_number = s.next_number + 1
RETURNING next_number - 1
"""
_LINK = """
UPDATE billing_charge c SET line_id = l.id
  FROM billing_invoiceline l
  JOIN billing_billingperiod s ON s.id = coalesce(l.service_period_id, %(period)s)
 WHERE l.invoice_id = %(invoice)s AND c.period_id = %(period)s AND c.line_id IS NULL
   AND (c.project_id, c.size, c.price_group, c.unit_price)
       = (l.project_id, l.size, l.price_group, l.unit_price)
   AND s.hours @> c.window_start
"""
_DIFFERENCES = """
SELECT (SELECT count(*) FROM billing_charge
         WHERE period_id = %(period)s AND line_id IS NULL)
     + (SELECT count(*) FROM billing_invoiceline l
         WHERE l.invoice_id = %(invoice)s
           AND l.unit_seconds IS DISTINCT FROM
               (SELECT sum(c.unit_seconds) FROM billing_charge c WHERE c.line_id = l.id))
     + (SELECT count(*) FROM billing_invoiceline l
          LEFT JOIN (
            SELECT b.project_id, b.size, b.price_group, b.unit_price,
                   coalesce(b.service_period_id, i.period_id) AS month_id,
                   sum(b.unit_seconds) AS unit_seconds
              FROM billing_invoiceline b JOIN billing_invoice i ON i.id = b.invoice_id
             WHERE i.organization_id = %(organization)s AND i.state = 'final'
             GROUP BY 1, 2, 3, 4, 5) billed
            ON (billed.project_id, billed.size, billed.price_group, billed.unit_price,
                billed.month_id)
               = (l.project_id, l.size, l.price_group, l.unit_price,
                  coalesce(l.service_period_id, %(period)s))
         WHERE l.invoice_id = %(invoice)s
           AND l.billed_unit_seconds <> coalesce(billed.unit_seconds, 0))
     + (SELECT count(*) FROM billing_invoice i
         CROSS JOIN LATERAL (
           SELECT sum(l.amount) AS total, sum(l.unit_seconds)::bigint AS unit_seconds
             FROM billing_invoiceline l WHERE l.invoice_id = i.id) added
         WHERE i.id = %(invoice)s
           AND (i.total, i.unit_seconds)
               IS DISTINCT FROM (added.total, added.unit_seconds))
"""
