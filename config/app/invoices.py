"""Pages of invoices and credit notes: the whole document, or a project's part of it."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from billing.access import (
    READ_CHARGE,
    READ_INVOICE,
    access_invoice,
    invoices_visible_to,
    lines_visible_to,
)
from billing.domain.documents.document import price_text
from billing.domain.documents.document_text import (
    hours_text,
    invoice_text,
    money_text,
    number_text,
)
from billing.domain.documents.invoicing import InvoiceState, LineKind
from billing.models import Invoice, InvoiceLine
from billing.selectors.documents.invoices import ProjectPart, project_parts
from billing.selectors.ledger.settlement import with_settlement
from config.app.figures import amount_of
from config.app.frame import render_page, shown_organizations, tenant_page
from config.app.labels import word
from tenants.access import is_platform_wide, projects_visible_to
from tenants.admin.base import actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.domain.errors import NotFoundError
from tenants.templatetags.texts import NONE, figure, who_may_text

LIST_TWIN: Final = "/api/v1/invoices/"
DOCUMENTS_SHOWN: Final = 100
"""The API has all."""
PARTS_SHOWN: Final = 200
LINES_SHOWN: Final = 500
"""Of a page of at most 300 KiB; the PDF and the file have all."""


@tenant_page
@require_safe
def invoices(request: HttpRequest) -> HttpResponse:
    """List the documents that the person reads, and the parts of its projects in others."""
    actor, at = actor_of_request(request), timezone.now()
    scope = shown_organizations(request, actor)
    rows = invoices_visible_to(actor).defer("document", "content")
    lines = _lines_of_parts(actor)
    if scope.chosen is not None:
        rows = rows.filter(organization=scope.chosen)
        lines = lines.filter(invoice__organization=scope.chosen)
    documents = with_settlement(rows, on=at.date()).order_by("-drafted_at", "-pk")
    parts = project_parts(lines, limit=PARTS_SHOWN)
    context: dict[str, Any] = {
        "scope": scope,
        "documents": [_document(one) for one in documents[:DOCUMENTS_SHOWN]],
        "parts": [_part(one) for one in parts],
        "reads_charges": bool(actor.grants_for(READ_CHARGE)),
        "readers": who_may_text(READ_INVOICE),
    }
    twin = context["parts"][0]["twin"] if parts and not context["documents"] else LIST_TWIN
    return render_page(request, "app/invoices.html", context, title=gettext("Invoices"), twin=twin)


@tenant_page
@require_safe
def invoice(request: HttpRequest, invoice_id: UUID) -> HttpResponse:
    """Show a document to its readers, and to others the parts of their projects."""
    actor, at = actor_of_request(request), timezone.now()
    try:
        found = access_invoice(actor, invoice_id, READ_INVOICE)
    except NotFoundError:
        return _part_page(request, invoice_id, actor)
    return _document_page(request, found, actor, at=at)


def _document_page(
    request: HttpRequest, found: Invoice, actor: Actor, *, at: datetime
) -> HttpResponse:
    settled = with_settlement(invoices_visible_to(actor), on=at.date()).get(pk=found.pk)
    words = invoice_text(found.document)
    context = {
        "document": found.document,
        "row": _document(settled),
        "words": words,
        "lines": words.lines[:LINES_SHOWN],
        "more": max(0, len(words.lines) - LINES_SHOWN),
        "is_draft": found.state == InvoiceState.DRAFT.value,
        "disputed": figure(money_text(settled.disputed_amount, found.currency))
        if settled.disputed_amount
        else "",
        "files": f"/api/v1/invoices/{found.pk}/",
    }
    return render_page(
        request,
        "app/invoice.html",
        context,
        title=f"{word(found.kind)} {found.reference}",
        twin=f"/api/v1/invoices/{found.pk}/",
    )


def _part_page(request: HttpRequest, invoice_id: UUID, actor: Actor) -> HttpResponse:
    lines = _lines_of_parts(actor).filter(invoice=invoice_id)
    parts = project_parts(lines, limit=PARTS_SHOWN)
    if not parts:
        raise NotFoundError("There is no such invoice.")
    document = parts[0].invoice
    by_project: dict[UUID, list[dict[str, str]]] = {part.project_id: [] for part in parts}
    for line in lines.order_by("position")[:LINES_SHOWN]:
        if line.project_id in by_project:
            by_project[line.project_id].append(_line(line))
    context = {
        "row": _kind_of(document),
        "parts": [{**_part(part), "rows": by_project[part.project_id]} for part in parts],
        "readers": who_may_text(READ_INVOICE),
    }
    return render_page(
        request,
        "app/invoice_part.html",
        context,
        title=gettext("Your part of {document}").format(
            document=f"{word(document.kind)} {document.reference}"
        ),
        twin=_part(parts[0])["twin"],
    )


def _lines_of_parts(actor: Actor) -> QuerySet[InvoiceLine]:
    """Return the printed lines that a person reads of documents not read as a whole."""
    lines = lines_visible_to(actor)
    if is_platform_wide(actor, READ_INVOICE):
        return lines.none()
    whole = invoices_visible_to(actor).order_by().values("pk")
    # The rule says it too, beside an alternative that keeps the database from the index.
    projects = projects_visible_to(actor, READ_CHARGE).order_by().values("pk")
    parts = lines.filter(project__in=projects).exclude(invoice__in=whole)
    return parts.exclude(unit_seconds=0, amount=0)


def _document(row: Any) -> dict[str, Any]:  # noqa: ANN401 - A document with its settlement.
    return {
        **_kind_of(row),
        "organization": row.organization.name,
        "payable": figure(money_text(row.payable, row.currency)),
        "open": figure(money_text(row.open_amount, row.currency)),
        "status": word(row.payment_status or row.state),
        "due_on": row.due_on or NONE,
    }


def _kind_of(row: Invoice) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": word(row.kind),
        "reference": row.reference,
        "month": row.period.label,
    }


def _part(part: ProjectPart) -> dict[str, Any]:
    return {
        **_kind_of(part.invoice),
        "project": part.project,
        "lines": part.lines,
        "amount": amount_of(part.amount),
        "twin": f"/api/v1/invoices/{part.invoice.pk}/lines/?project={part.project_id}",
    }


def _line(line: InvoiceLine) -> dict[str, str]:
    """Return a line as the document prints it."""
    currency = line.invoice.currency
    is_usage = line.kind == LineKind.USAGE.value
    price = price_text(line.unit_price, digits=MINOR_DIGITS.get(currency, 0))
    return {
        "description": line.description,
        "hours": figure(hours_text(line.unit_seconds)) if is_usage else "",
        "price": figure(number_text(price)) if is_usage else "",
        "amount": figure(money_text(line.amount, currency)),
    }
