"""Finalizing invoices: number, frozen document and closed period, all or nothing.

The database refuses every later change of what is written here.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction

from billing.domain.closing import PeriodMove, require_period_move
from billing.domain.documents.document import (
    InvoiceTerms,
    canonical_text,
    digest_of,
    issue_document,
    missing_of_issuer,
)
from billing.domain.documents.errors import IssuerIncompleteError, IssuerLogoError
from billing.domain.documents.invoicing import InvoiceMove, InvoiceState, require_move
from billing.domain.documents.routing import numbering_order
from billing.domain.e_invoices.files import e_invoice_files
from billing.domain.errors import FourEyesError
from billing.models import BillingPeriod, DocumentFile, Invoice, PeriodState
from billing.models.invoice import FileKind
from billing.selectors.documents.finals import FinalReading, final_documents, read_final
from billing.selectors.documents.routing import route_of
from billing.selectors.locks import lock_organization, lock_period, lock_run
from billing.services.closing import mark_approved, require_another_person, require_usual_cost
from billing.services.composing import issuing_terms
from billing.services.draft_checks import require_same
from billing.services.invoicing import refuse_problems
from billing.services.ledger.documents import post_document
from billing.services.ledger.notices import notify_issued
from billing.services.routing import freeze_routes
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor, ActorKind
from tenants.services.audit import record
from tenants.services.changing import require_version

YEARS_MAX = 2
"""A year ends once while a number is waited for."""
LOCK_TIMEOUT_MS = 15_000
"""How long one finalization waits for another of the same period: adding up 3,000,000 charges takes
seconds, and the second call then finds the invoice final and changes nothing."""


def finalize_invoice(
    *,
    invoice_id: UUID,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
    expected_version: int | None = None,
    reading: FinalReading | None = None,
) -> Invoice:
    """Return the invoice, final with its whole billing run: a second call changes nothing.

    The number and the date are taken together by the last lock, so that a rolled-back
    finalization leaves no gap and a later number never has an earlier date.

    Args:
        invoice_id: A draft, or an invoice that is final already.
        actor: The account that finalizes.
        at: When it was asked for; the date of the invoice is the database's.
        terms: First number of a year, and whether the four-eyes rule applies.
        expected_version: The version of the draft that the caller saw; None for any.
        reading: What the draft is held against, as it was read a moment ago together with others;
            one of another version of the draft is not used. Charges are always read anew.

    Raises:
        StaleVersionError: It was drafted again since.
        FourEyesError: The four-eyes rule applies, and not two people drafted, or sent to review,
            and finalize it.
        PeriodNotReadyError: Something came up since the draft; every reason is under `problems`.
        UnusualCostError: An open month costs many times the usual: it is sent to review first.
        DraftStaleError: The period's charges, or issuer, customer or tax, are no longer those of
            the draft.
        IssuerIncompleteError: The issuer lacks what has to be printed of it.
        IssuerLogoError: The logo of its issuer cannot be printed.
        TaxRateMissingError: The organization's tax treatment has no rate at the tax point.
        Invoice.DoesNotExist: There is none.
    """
    found = Invoice.objects.only("period_id", "run").get(pk=invoice_id)
    with transaction.atomic():
        _wait_longer()
        prefer_hash_joins()
        period = lock_period(found.period_id)
        organization = lock_organization(period.organization_id)
        run = _in_order_of_series(lock_run(period, run=found.run))
        invoice = _of_run(run, invoice_id)
        if invoice.state == InvoiceState.FINAL.value:
            return invoice
        require_move(invoice.state, InvoiceMove.FINALIZE, reference=invoice.reference)
        require_version(row=invoice, expected_version=expected_version, actor=actor)
        reading = _first_run_reading(period, run, reading, at=at)
        _require_review(period, run, reading, actor=actor, terms=terms, at=at)
        notes = [document for document in run if document.corrects_id is not None]
        invoices = [document for document in run if document.corrects_id is None]
        for note in notes:
            _finalize(note, actor=actor, terms=terms, at=at)
        if invoices:
            facts = None if reading is None else reading.facts
            require_same(invoices, notes, period, organization, terms=terms, facts=facts)
        for document in invoices:
            _finalize(document, actor=actor, terms=terms, at=at)
        if period.state != PeriodState.CLOSED:
            _close(period, at=run[-1].finalized_at)
        for document in run:
            post_document(document, payment_days=terms.payment_days, actor=actor, at=at)
        notify_issued(run, at=at)
        return invoice


def file_of(
    document: Invoice,
    *,
    kind: FileKind,
    render: Callable[[Mapping[str, Any], bytes], bytes],
    at: datetime,
) -> bytes:
    """Return a file of a document: of a final one always the bytes that were rendered first.

    So a new font, template or library changes nothing that was issued. Two callers at once get the
    bytes of one of them.

    Args:
        document: A draft, which is rendered anew each time, or a final document.
        kind: Which file.
        render: Makes it from the document's text and its e-invoice in CII; b"" without one.
        at: When.
    """
    if document.state != InvoiceState.FINAL.value:
        return render(document.document, b"")
    files = DocumentFile.objects.filter(document=document, kind=kind)
    stored = files.first()
    if stored is None:
        e_invoice = DocumentFile.objects.filter(document=document, kind=FileKind.CII).first()
        content = render(document.document, bytes(e_invoice.content) if e_invoice else b"")
        made = _document_file(document, kind, content, at=at)
        DocumentFile.objects.bulk_create([made], ignore_conflicts=True)
        stored = files.get()
    return bytes(stored.content)


def four_eyes_problem(invoice: Invoice, *, actor: Actor, terms: InvoiceTerms) -> str:
    """Return why an account may not finalize a draft under four eyes; "" where it may."""
    try:
        if invoice.run > 1 or invoice.period.state == PeriodState.OPEN:
            _require_four_eyes([invoice], actor=actor, terms=terms)
        elif invoice.period.state == PeriodState.REVIEW:
            require_another_person(invoice.period, actor=actor, terms=terms)
    except FourEyesError as refusal:
        return f"{refusal} {refusal.remedy}"
    return ""


def _of_run(run: Sequence[Invoice], invoice_id: UUID) -> Invoice:
    """Return a document of a run.

    Raises:
        Invoice.DoesNotExist: It was discarded a moment ago.
    """
    for document in run:
        if document.pk == invoice_id:
            return document
    raise Invoice.DoesNotExist


def _first_run_reading(
    period: BillingPeriod, run: Sequence[Invoice], reading: FinalReading | None, *, at: datetime
) -> FinalReading | None:
    """Return what a first run is held against, read anew where something changed since; or None."""
    if run[0].run > 1:
        return None
    payer = period.organization_id
    finals = final_documents([payer])[payer]
    if reading is not None and reading.is_of(run, finals=finals):
        return reading
    return read_final(period, run, finals=finals, at=at)


def _in_order_of_series(run: Sequence[Invoice]) -> list[Invoice]:
    """Return documents in the order in which all runs take numbers."""
    return sorted(run, key=lambda row: numbering_order(row.kind, row.series, route_of(row)))


def _finalize(invoice: Invoice, *, actor: Actor, terms: InvoiceTerms, at: datetime) -> None:
    _freeze(invoice, actor=actor, terms=terms)
    if terms.with_e_invoices:
        _store_e_invoice(invoice, at=at)
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


def _wait_longer() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_TIMEOUT_MS}ms"])


def _require_review(
    period: BillingPeriod,
    run: Sequence[Invoice],
    reading: FinalReading | None,
    *,
    actor: Actor,
    terms: InvoiceTerms,
    at: datetime,
) -> None:
    """Refuse what two people have not settled; an open month is reviewed and approved in one go.

    A month in review takes no charges, so that it stays as ready as it was.
    """
    if reading is None:
        _require_four_eyes(run, actor=actor, terms=terms)
        return
    require_period_move(period.state, PeriodMove.FINALIZE, label=period.label)
    if period.state == PeriodState.OPEN:
        _require_four_eyes(run, actor=actor, terms=terms)
        refuse_problems(reading.problems)
        require_usual_cost(run, usual=reading.usual, acknowledgement="")
        freeze_routes(period, run=1)
    elif period.state == PeriodState.REVIEW:
        require_another_person(period, actor=actor, terms=terms)
        mark_approved(period, actor=actor, at=at)


def _require_four_eyes(run: Sequence[Invoice], *, actor: Actor, terms: InvoiceTerms) -> None:
    """Refuse unless two people act: what the service drafted by itself, no person has checked."""
    if not terms.is_four_eyes:
        return
    person = ActorKind.PERSON.value
    for invoice in run:
        if invoice.drafted_by_kind != person or actor.kind.value != person:
            raise FourEyesError(
                "An invoice is drafted by one person and finalized by another.",
                facts={"drafted_by": invoice.drafted_by, "finalized_by": actor.label},
            )
        if invoice.drafted_by_id == actor.id:
            raise FourEyesError(
                "The drafter of an invoice may not finalize it.",
                facts={"drafted_by": invoice.drafted_by},
            )


def _freeze(invoice: Invoice, *, actor: Actor, terms: InvoiceTerms) -> None:
    issued = issuing_terms(invoice.issuer_id, terms=terms)
    _require_issuer(invoice, terms=terms)
    invoice.series, invoice.number, issued_at = _take_number(
        invoice.series, first_number=issued.first_number
    )
    invoice.issue_year = issued_at.year
    invoice.document = issue_document(
        invoice.document,
        reference=invoice.reference,
        issued_at=issued_at,
        payment_days=terms.payment_days,
    )
    invoice.content = canonical_text(invoice.document)
    invoice.content_sha256 = digest_of(invoice.document)
    invoice.state = InvoiceState.FINAL.value
    invoice.finalized_by, invoice.finalized_at = actor.label, issued_at
    invoice.version += 1
    invoice.save(
        update_fields=[
            "series",
            "number",
            "issue_year",
            "document",
            "content",
            "content_sha256",
            "state",
            "finalized_by",
            "finalized_at",
            "version",
        ]
    )


def _store_e_invoice(invoice: Invoice, *, at: datetime) -> None:
    """Freeze the e-invoice with the document, so that a later build changes nothing of it."""
    files = e_invoice_files(invoice.document)
    DocumentFile.objects.bulk_create(
        [
            _document_file(invoice, FileKind(syntax.value), content, at=at)
            for syntax, content in files.items()
        ]
    )


def _document_file(
    document: Invoice, kind: FileKind, content: bytes, *, at: datetime
) -> DocumentFile:
    digest = hashlib.sha256(content).hexdigest()
    return DocumentFile(
        document=document, kind=kind, content=content, sha256=digest, rendered_at=at
    )


def _require_issuer(invoice: Invoice, *, terms: InvoiceTerms) -> None:
    """Refuse a document whose issuer lacks what has to be printed of it.

    A note shows the issuer as it stands on the final document that it corrects.
    """
    if problem := terms.logo_problems.get(invoice.document["issuer"]["name"]):
        raise IssuerLogoError(problem)
    if invoice.corrects_id is not None:
        return
    missing = missing_of_issuer(invoice.document)
    if not missing:
        return
    names, whose = ", ".join(missing), invoice.document["issuer"]["name"]
    if invoice.issuer_id is None:
        names, whose = ", ".join(f"ISSUER_{field.upper()}" for field in missing), "the site"
    raise IssuerIncompleteError(
        f"The issuer ({whose}) lacks {names}.", facts={"missing": names, "issuer": whose}
    )


def _take_number(prefix: str, *, first_number: int) -> tuple[str, int, datetime]:
    """Return the series of this year, its next number and the date; keep the lock until the end.

    A statement that waits for the lock over the end of a year takes the number again, of the new
    year's series.

    Args:
        prefix: Of the series.
        first_number: Of a year that has no number yet.
    """
    given: dict[str, Any] = {"prefix": prefix, "first": first_number}
    for _ in range(YEARS_MAX):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_NEXT_NUMBER, given)
            code, number, issued_at = cursor.fetchone()
            issued_at = issued_at.astimezone(UTC)
            if code == f"{prefix}-{issued_at.year}":
                return code, int(number), issued_at
            transaction.set_rollback(True)
    raise OperationalError("Years pass faster than numbers are taken.")


def _close(period: BillingPeriod, *, at: datetime | None) -> None:
    period.state, period.closed_at = PeriodState.CLOSED.value, at
    period.save(update_fields=["state", "closed_at"])


# Numbers from before series had a year were printed with the year of their period: a year begins
# after them. The clock is read again once the row is locked.
_NEXT_NUMBER = """
INSERT INTO billing_invoiceseries AS s (code, first_number, next_number, last_issued_at)
SELECT %(prefix)s || '-' || clock.year, begun.first, begun.first + 1, clock.at
  FROM (SELECT at, to_char(at AT TIME ZONE 'UTC', 'YYYY') AS year
          FROM (SELECT clock_timestamp() AS at) now) clock
 CROSS JOIN LATERAL (
   SELECT greatest(%(first)s, coalesce(max(i.number), 0) + 1) AS first
     FROM billing_invoice i JOIN billing_billingperiod p ON p.id = i.period_id
    WHERE i.series = %(prefix)s AND i.number IS NOT NULL AND left(p.label, 4) = clock.year) begun
ON CONFLICT (code) DO UPDATE
  SET next_number = s.next_number + 1,
      last_issued_at = greatest(clock_timestamp(), s.last_issued_at)
RETURNING code, next_number - 1, last_issued_at
"""
