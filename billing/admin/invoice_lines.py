"""Pages of a line: how it was computed, its days, and the charges and pods of a day."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from billing.access import (
    WRITE_INVOICE,
    access_line,
    charges_visible_to,
    lines_visible_to,
)
from billing.admin.amounts import hours_text, money_text, number_text
from billing.admin.ledger.invoice_steps import reach
from billing.domain.documents.document import as_printed, price_text
from billing.domain.documents.document_text import LineText
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState, LineKind
from billing.domain.documents.line_text import LineSteps, line_steps
from billing.domain.money import Money, cost_of
from billing.models import Charge, Invoice, InvoiceLine
from billing.selectors.documents.corrections import left_of_lines
from billing.selectors.documents.line_charges import (
    ChargedPrice,
    LineDay,
    charges_of_day,
    corrected_line,
    days_of_line,
    money_of_days,
    price_spans,
    use_of,
    with_local_day,
)
from billing.selectors.documents.membership import with_line
from metering.access import usage_visible_to
from metering.selectors.collection.records import UseKey, UseRecords, largest_records
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.archives import MonthArchivedError
from tenants.domain.currencies import MINOR_DIGITS
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import figure, who_may_text

LINE_PAGE: Final = "admin:billing_invoice_line"
DAY_PAGE: Final = "admin:billing_invoice_line_day"
CHARGES_SHOWN: Final = 50
RECORDS_SHOWN: Final = 5
"""Of each charge; its own page has more."""
RECORDS_MAX: Final = 500


def line_page(page: LedgerAdmin, request: HttpRequest, line_id: UUID) -> HttpResponse:
    """Return the page of a line, with its days."""
    actor = actor_of_request(request)
    line = reach(lambda: access_line(actor, line_id))
    invoice, days = line.invoice, days_of_line(charges_visible_to(actor), line)
    context = {
        **page.page_context(request, title=_line_title(line)),
        **_about(line),
        "steps": _steps(line),
        "days": [_day(day, line) for day in days],
        "sums": _sums(days, line) if days else None,
        "is_usage": line.kind == LineKind.USAGE.value,
        "prices": _prices(price_spans(charges_visible_to(actor), line), line),
        "corrected": corrected_line(line),
        "taxes": invoice.document.get("taxes", ()),
        "left": _left(line),
        "may_write": actor.may(WRITE_INVOICE),
        "writers": who_may_text(WRITE_INVOICE, reach={RoleScope.PLATFORM}),
    }
    return TemplateResponse(request, "admin/billing/invoice/line.html", context)


def line_day_page(page: LedgerAdmin, request: HttpRequest, line_id: UUID, day: str) -> HttpResponse:
    """Return the page of one day of a line: its charges, with the pods of each."""
    actor = actor_of_request(request)
    line = reach(lambda: access_line(actor, line_id))
    try:
        asked = date.fromisoformat(day)
    except ValueError as error:
        raise Http404 from error
    charges = charges_visible_to(actor)
    whole = next((one for one in days_of_line(charges, line) if one.day == asked), None)
    if whole is None:
        raise Http404
    shown = Paginator(charges_of_day(charges, line, asked), CHARGES_SHOWN).get_page(
        request.GET.get("page")
    )
    records, archived = _records(actor, [use_of(one) for one in shown], limit=RECORDS_SHOWN)
    context = {
        **page.page_context(request, title=_day_title(asked, line)),
        **_about(line),
        "day": _day(whole, line),
        "charges": [charge_row(one, records.get(use_of(one))) for one in shown],
        "archived": archived,
        "page": shown,
    }
    return TemplateResponse(request, "admin/billing/invoice/line_day.html", context)


def _line_title(line: InvoiceLine) -> str:
    return gettext("Line {position} of {document}").format(
        position=line.position, document=line.invoice
    )


def _day_title(day: date, line: InvoiceLine) -> str:
    shown = date_format(day, gettext("j F Y"))
    return gettext("{day}, line {position}").format(day=shown, position=line.position)


def _records(
    actor: Actor, uses: Sequence[UseKey], *, limit: int
) -> tuple[Mapping[UseKey, UseRecords], str]:
    """Return the records of charges, and where they are when their month is archived."""
    try:
        return largest_records(usage_visible_to(actor), uses, limit=limit), ""
    except MonthArchivedError as refusal:
        return {}, refusal_sentence(refusal)


def charge_row(charge: Charge, found: UseRecords | None) -> dict[str, Any]:
    """Return what a page shows of a charge and the records it was added up from."""
    records: Sequence[Any] = found.records if found else ()
    return {
        "charge": charge,
        "hours": hours_text(charge.unit_seconds),
        "price": _price(charge),
        "cost": money_text(charge.cost.amount, charge.currency),
        "records": [(record, hours_text(record.unit_seconds)) for record in records],
        "more": found.count - len(records) if found else 0,
    }


def charge_origin(charge: Charge, actor: Actor) -> dict[str, Any]:
    """Return what a charge's page shows: its line and day, and the pods it was added up from."""
    use = use_of(charge)
    records, archived = _records(actor, [use], limit=RECORDS_MAX)
    owned = with_local_day(with_line(charges_visible_to(actor), of_drafts=True)).get(pk=charge.pk)
    # A lead reads charges of a project, and not the documents of its organization.
    line = lines_visible_to(actor).filter(pk=owned.line_id).first()
    return {
        "charges": [{**charge_row(charge, records.get(use)), "more": 0}],
        "line": line,
        "day": owned.local_day,
        "day_link": line and reverse(DAY_PAGE, args=[line.pk, owned.local_day.isoformat()]),
        "rule": archived or _origin_rule(charge, records.get(use)),
    }


def _origin_rule(charge: Charge, found: UseRecords | None) -> str:
    """Return how records and charge compare, in whole unit-seconds."""
    if found is None:
        return gettext("None of its usage records is there for you to see.")
    records = ngettext("{count} usage record", "{count} usage records", found.count)
    if found.count > RECORDS_MAX:
        records = gettext("The {shown} largest of {count} usage records")
    if charge.repricing_id is not None and charge.unit_seconds < 0:
        rule = gettext(
            "{records}, in all {sum} unit-seconds: a repricing takes back {charged} of them at "
            "this price."
        )
    elif charge.repricing_id is not None:
        rule = gettext(
            "{records}, in all {sum} unit-seconds: a repricing charges again {charged} of them at "
            "this price."
        )
    elif charge.correction_id is not None:
        rule = gettext(
            "{records}, in all {sum} unit-seconds, by which a correction changes the hour; it is "
            "charged at its price."
        )
    else:
        rule = gettext("{records}, in all {sum} unit-seconds: the charge is of {charged}.")
    is_taken_back = charge.repricing_id is not None
    charged = abs(charge.unit_seconds) if is_taken_back else charge.unit_seconds
    return rule.format(
        records=records.format(count=figure(f"{found.count:,}"), shown=RECORDS_MAX),
        sum=figure(f"{found.unit_seconds:,}"),
        charged=figure(f"{charged:,}"),
    )


def linked_lines(invoice: Invoice, texts: Sequence[LineText]) -> list[tuple[LineText, str]]:
    """Return the lines of a document as displayed, each with its page; one statement."""
    keys = dict(invoice.lines.order_by().values_list("position", "pk"))
    printed = as_printed(invoice.document)["lines"]
    links = [reverse(LINE_PAGE, args=[keys[line["position"]]]) for line in printed]
    return list(zip(texts, links, strict=True))


def _about(line: InvoiceLine) -> dict[str, Any]:
    invoice = line.invoice
    return {
        "line": line,
        "invoice": invoice,
        "customer": invoice.document["customer"]["name"],
        "amount": money_text(line.amount, invoice.currency),
        "is_draft": invoice.state == InvoiceState.DRAFT.value,
        "month": (line.service_period or invoice.period).label,
    }


def _steps(line: InvoiceLine) -> LineSteps:
    """Return how a line was computed, in the language of the page."""
    made = line_steps(_printed(line), document=line.invoice.document)
    steps = tuple((gettext(label), figure(value)) for label, value in made.steps)
    return LineSteps(gettext(made.rule), steps)


def _printed(line: InvoiceLine) -> dict[str, Any]:
    lines = line.invoice.document["lines"]
    printed: dict[str, Any] = next(one for one in lines if one["position"] == line.position)
    return printed


def _day(day: LineDay, line: InvoiceLine) -> dict[str, Any]:
    return {
        "day": day.day,
        "charges": day.charges,
        "hours": hours_text(day.unit_seconds),
        "cost": money_text(day.cost.amount, day.cost.currency),
        "link": reverse(DAY_PAGE, args=[line.pk, day.day.isoformat()]),
    }


def _sums(days: Sequence[LineDay], line: InvoiceLine) -> dict[str, Any]:
    """Return what the days add up to, and how that compares with the line."""
    currency, unit_seconds = line.invoice.currency, sum(day.unit_seconds for day in days)
    rounded, product = money_of_days(days, currency=currency)
    once = cost_of(product, currency=currency)
    return {
        "hours": hours_text(unit_seconds),
        "rounded": money_text(rounded.amount, currency),
        "once": money_text(once.amount, currency),
        "rounding": money_text((rounded + -once).amount, currency) if rounded != once else "",
        "missing": hours_text(unit_seconds - line.unit_seconds)
        if unit_seconds != line.unit_seconds
        else "",
    }


def _prices(spans: Sequence[ChargedPrice], line: InvoiceLine) -> list[dict[str, Any]]:
    """Return the days of each price where a month has several; none where it has one."""
    if len(spans) < 2:  # noqa: PLR2004 - One price needs no days.
        return []
    currency = line.invoice.currency
    digits = MINOR_DIGITS.get(currency, 0)
    return [
        {
            "price": f"{number_text(price_text(span.unit_price, digits=digits))} {currency}",
            "first": span.first_day,
            "last": span.last_day,
            "hours": hours_text(span.unit_seconds),
            "is_own": span.unit_price == line.unit_price,
        }
        for span in spans
    ]


def _left(line: InvoiceLine) -> dict[str, Any] | None:
    """Return what is left of a line that a credit note may give back; None where none may."""
    invoice = line.invoice
    if invoice.state != InvoiceState.FINAL.value or invoice.kind not in OWED_KINDS:
        return None
    left = Money(left_of_lines(invoice, {line.pk: line})[line.pk], invoice.currency)
    page = reverse("admin:billing_invoice_change", args=[invoice.pk])
    return {
        "amount": money_text(left.amount, left.currency),
        "is_above_zero": left.minor_units > 0,
        "link": f"{page}?credit={line.pk}#credit",
    }


def _price(charge: Charge) -> str:
    digits = MINOR_DIGITS.get(charge.currency, 0)
    return f"{number_text(price_text(charge.unit_price, digits=digits))} {charge.currency}"
