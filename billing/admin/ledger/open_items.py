"""Pages of open items: what organizations owe by days overdue, and the account of one."""

from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminDateWidget, UnfoldAdminSelectWidget

from billing.access import READ_INVOICE
from billing.adapters.documents import render_statement
from billing.adapters.terms import invoice_terms, logo_on
from billing.admin.amounts import money_text
from billing.domain.costs import FIRST_DAY, LAST_DAY
from billing.domain.documents.errors import IssuerLogoError
from billing.domain.ledger.statement import AccountStatement
from billing.selectors.ledger.reports import (
    AGEING_COLUMNS,
    LINES_MAX,
    AgeingRow,
    ageing,
    statement,
)
from billing.services.composing import printed_statement
from tenants.access import organizations_visible_to
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.currencies import MINOR_DIGITS
from tenants.models import Organization
from tenants.templatetags.texts import value_text

STATEMENT_DAYS = 92
"""Shown without a choice: three months."""


class AgeingForm(forms.Form):
    """At the end of which day."""

    on = forms.DateField(
        label=gettext_lazy("At the end of"),
        widget=UnfoldAdminDateWidget(),
        validators=[MinValueValidator(FIRST_DAY), MaxValueValidator(LAST_DAY)],
    )


class StatementForm(forms.Form):
    """Whose account, from when to when."""

    organization = forms.ChoiceField(
        label=gettext_lazy("Organization"), widget=UnfoldAdminSelectWidget()
    )
    begin = forms.DateField(label=gettext_lazy("From"), widget=UnfoldAdminDateWidget())
    end = forms.DateField(label=gettext_lazy("Before"), widget=UnfoldAdminDateWidget())


def ageing_page(admin: LedgerAdmin, request: HttpRequest) -> TemplateResponse:
    """Return what every organization owes, by days overdue."""
    today = timezone.now().date()
    form = AgeingForm(request.GET or {"on": today})
    on: date = form.cleaned_data["on"] if form.is_valid() else today
    rows = ageing(on=on, organization_ids=None)
    visible = organizations_visible_to(actor_of_request(request), READ_INVOICE)
    names = {organization.slug: organization.name for organization in visible}
    context = {
        **admin.page_context(request, title=gettext("Open items")),
        "form": form,
        "rows": [_ageing_cells(row, name=names[row.organization], on=on) for row in rows],
    }
    return TemplateResponse(request, "admin/billing/payment/ageing.html", context)


def statement_page(admin: LedgerAdmin, request: HttpRequest) -> HttpResponse:
    """Return the account of an organization: opening, documents and payments, closing.

    With `format=pdf` it is a file, unless it has more lines than are printed.
    """
    at = timezone.now()
    today = at.date()
    initial = {"begin": today - timedelta(days=STATEMENT_DAYS), "end": today + timedelta(days=1)}
    form = StatementForm(request.GET or None, initial=initial)
    organizations = {
        organization.slug: organization
        for organization in organizations_visible_to(actor_of_request(request), READ_INVOICE)
    }
    form.fields["organization"].choices = [  # type: ignore[attr-defined]
        (slug, organization.name) for slug, organization in organizations.items()
    ]
    shown: dict[str, Any] = {}
    if form.is_valid():
        organization = organizations[form.cleaned_data["organization"]]
        made = _statement(form, request, organization)
        if request.GET.get("format") == "pdf" and len(made.lines) <= LINES_MAX:
            try:
                return _pdf(organization, made, at=at)
            except IssuerLogoError as error:
                admin.report_refusal(request, error)
        pdf = f"?{urlencode({**request.GET.dict(), 'format': 'pdf'})}"
        shown = {"statement": _statement_texts(made), "pdf_link": pdf}
    context = {
        **admin.page_context(request, title=gettext("Statement")),
        "form": form,
        "lines_max": LINES_MAX,
        **shown,
    }
    return TemplateResponse(request, "admin/billing/payment/statement.html", context)


def _statement(
    form: StatementForm, request: HttpRequest, organization: Organization
) -> AccountStatement:
    currency = request.GET.get("currency", "")
    return statement(
        organization.pk,
        currency=currency if currency in MINOR_DIGITS else organization.billing_currency,
        begin_on=form.cleaned_data["begin"],
        end_on=form.cleaned_data["end"],
    )


def _pdf(organization: Organization, made: AccountStatement, *, at: datetime) -> HttpResponse:
    document = printed_statement(organization, made, terms=invoice_terms(), at=at)
    name = f"statement-{organization.slug}-{made.begin_on}.pdf"
    return HttpResponse(
        render_statement(document, logo=logo_on(document)),
        content_type="application/pdf",
        headers={
            "Content-Disposition": f'inline; filename="{name}"',
            "Cache-Control": "private, no-store",
        },
    )


def _ageing_cells(row: AgeingRow, *, name: str, on: date) -> dict[str, Any]:
    page = reverse("admin:billing_payment_statement")
    chosen = {
        "organization": row.organization,
        "currency": row.currency,
        "begin": on - timedelta(days=STATEMENT_DAYS),
        "end": on + timedelta(days=1),
    }
    return {
        "organization": name,
        "url": f"{page}?{urlencode(chosen)}",
        "amounts": [
            money_text(amount, row.currency) if (amount := getattr(row, column)) else ""
            for column in AGEING_COLUMNS[2:]
        ],
    }


def _statement_texts(made: AccountStatement) -> dict[str, Any]:
    return {
        "opening": money_text(made.opening, made.currency),
        "closing": money_text(made.closing, made.currency),
        "is_cut": len(made.lines) > LINES_MAX,
        "lines": [
            {
                "dated_on": line.dated_on,
                "event": value_text(line.event),
                "reference": line.reference,
                "amount": money_text(line.amount, made.currency),
                "balance": money_text(line.balance, made.currency),
            }
            for line in made.lines
        ],
    }
