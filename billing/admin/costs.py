"""The page "Costs": any range of days, grouped, filtered and compared; and the daily costs."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext
from unfold.decorators import action

from billing.access import READ_CHARGE, exceptions_visible_to
from billing.access.costs import (
    changed_hours_visible_to,
    clusters_in_use,
    cost_views_visible_to,
    daily_costs_visible_to,
)
from billing.adapters.documents import render_table
from billing.adapters.workbooks import CONTENT_TYPE, Sheet, render_workbook
from billing.admin.amounts import hours_text, money_text, number_text
from billing.admin.cost_charts import GROUPS_MAX, stacked_days
from billing.admin.cost_form import (
    LABELS,
    LACKING,
    NEXT,
    PRESET_LABELS,
    CostChoices,
    CostForm,
    address_of,
    unpriced_address,
)
from billing.domain.cost_table import FIGURES, cost_columns, cost_file_name, cost_record
from billing.domain.costs import (
    DAY,
    CostDimension,
    CostKey,
    CostPreset,
    CostQuery,
    GroupCost,
)
from billing.domain.documents.document import price_text
from billing.domain.money import Money, cost_of
from billing.models import DailyCost
from billing.selectors.cost_report import (
    CostReport,
    cost_by_day,
    cost_report,
    last_day_with_costs,
)
from billing.services.showback import delete_cost_view, save_cost_view
from metering.domain.catalogue.units import GPUSize
from tenants.access import clusters_visible_to, organizations_visible_to, projects_visible_to
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.domain.errors import DomainError
from tenants.selectors.report_database import ReportDatabase, report_database
from tenants.templatetags.texts import figure

TEMPLATE: Final = "admin/billing/dailycost/costs.html"
BARS_MAX: Final = 92
"""A quarter by day; more could not be distinguished."""
ROWS_SHOWN: Final = 100
"""Half of what a page may weigh; the file has all rows."""


def costs_page(page: LedgerAdmin, request: HttpRequest) -> HttpResponse:
    """Return the page that the address asks for, or its file; a POST saves or deletes a view."""
    actor, at = actor_of_request(request), timezone.now()
    costs = daily_costs_visible_to(actor)
    asked, preset = _asked(request, costs, today=at.date())
    form = CostForm(asked, choices=_choices(actor, asked))
    is_valid = form.is_valid()
    address = address_of(form.cleaned_data, preset=preset) if is_valid else ""
    if request.method == "POST":
        _change_views(page, request, address=address, actor=actor, at=at)
        return HttpResponseRedirect(f"?{address}")
    context = {
        **page.page_context(request, title=gettext("Costs")),
        "form": form,
        "address": address,
        "preset": preset,
        "presets": [
            (one, label, address_of(form.cleaned_data, preset=one))
            for one, label in PRESET_LABELS.items()
        ],
        "views": cost_views_visible_to(actor),
    }
    if is_valid:
        suffix = next((one for one in ("csv", "xlsx") if one in request.GET), "")
        try:
            query = form.cleaned_data["query"]
            database = report_database(at=at)
            with database.reading():
                report = cost_report(
                    costs,
                    query,
                    unpriced=exceptions_visible_to(actor),
                    changed=changed_hours_visible_to(actor),
                    clusters=clusters_in_use(actor, query),
                    at=database.as_of,
                )
                if not suffix:
                    address_parts = {**form.cleaned_data, "preset": preset}
                    context |= _shown(report, costs, address=address_parts)
        except DomainError as error:
            page.report_refusal(request, error)
        else:
            if suffix:
                return _file(report, database, suffix=suffix)
            context["is_replica"] = database.is_replica
    return TemplateResponse(request, TEMPLATE, context)


def _asked(
    request: HttpRequest, costs: QuerySet[DailyCost], *, today: date
) -> tuple[dict[str, str], CostPreset | None]:
    """Return the fields of the form, and the range that moves with today, if it is one.

    Without days, it is the last month with costs. Days that were typed in end a moving range.
    """
    asked = {"group_by": CostDimension.ORGANIZATION.value, **request.GET.dict()}
    name = asked.pop("range", "")
    typed = asked.get("begin", ""), asked.get("last", "")
    if name in set(CostPreset):
        preset = CostPreset(name)
        days = _texts(preset.days(today))
        if typed in {("", ""), days}:
            return asked | dict(zip(("begin", "last"), days, strict=True)), preset
    if typed != ("", ""):
        return asked, None
    shown = last_day_with_costs(costs) or today
    for preset in (CostPreset.THIS_MONTH, CostPreset.LAST_MONTH):
        first, end = preset.days(today)
        if first <= shown < end:
            return asked | dict(zip(("begin", "last"), _texts((first, end)), strict=True)), preset
    days = _texts((shown.replace(day=1), shown + DAY))
    return asked | dict(zip(("begin", "last"), days, strict=True)), None


def _texts(days: tuple[date, date]) -> tuple[str, str]:
    first, end = days
    return str(first), str(end - DAY)


def _choices(actor: Actor, asked: Mapping[str, str]) -> CostChoices:
    organizations = _named(organizations_visible_to(actor, READ_CHARGE))
    chosen = asked.get("organization", "")
    is_known = any(chosen == value for value, _ in organizations)
    projects = projects_visible_to(actor, READ_CHARGE)
    return CostChoices(
        organizations=organizations,
        projects=_named(projects.filter(organization__pk=chosen)) if is_known else [],
        clusters=_named(clusters_visible_to(actor)),
    )


def _named(rows: QuerySet[Any]) -> list[tuple[str, str]]:
    return [(str(pk), name) for pk, name in rows.order_by("name").values_list("pk", "name")]


def _change_views(
    page: LedgerAdmin, request: HttpRequest, *, address: str, actor: Actor, at: datetime
) -> None:
    try:
        if deleted := request.POST.get("delete", ""):
            for view in cost_views_visible_to(actor):
                if str(view.pk) == deleted:
                    delete_cost_view(view=view, actor=actor, at=at)
                    done = gettext("The view {view} was deleted.").format(view=view)
                    page.message_user(request, done, messages.SUCCESS)
        elif address:
            view = save_cost_view(
                name=request.POST.get("name", ""), query=address, actor=actor, at=at
            )
            done = gettext("The view {view} was saved.").format(view=view)
            page.message_user(request, done, messages.SUCCESS)
    except DomainError as error:
        page.report_refusal(request, error)


def _file(report: CostReport, database: ReportDatabase, *, suffix: str) -> HttpResponse:
    query = report.query
    columns, records = cost_columns(query.group_by), map(cost_record, report.rows)
    if suffix == "xlsx":
        content = render_workbook(
            Sheet("Costs", columns, records, FIGURES), at=report.metered_until or report.as_of
        )
    else:
        content = render_table(columns, records, numbers=FIGURES)
    return HttpResponse(
        content,
        content_type=CONTENT_TYPE if suffix == "xlsx" else "text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{cost_file_name(query, suffix=suffix)}"',
            "Cache-Control": "private, no-store",
            **database.headers,
        },
    )


def _shown(
    report: CostReport, costs: QuerySet[DailyCost], *, address: Mapping[str, Any]
) -> dict[str, Any]:
    query = report.query
    return {
        "report": report,
        "unpriced": _units(report.gaps.unpriced),
        "unpriced_address": unpriced_address(query),
        "last": query.end - DAY,
        "previous_last": query.first - DAY,
        "headers": [LABELS[dimension] for dimension in query.group_by],
        "has_units": query.is_of_one_size,
        "rows": [_cells(row, address=address) for row in report.rows[:ROWS_SHOWN]],
        "totals": [_cells(row, address={}) for row in report.totals],
        "more": max(0, len(report.rows) - ROWS_SHOWN),
        "charts": _charts(report, costs),
    }


def _units(unit_seconds: Mapping[str, int]) -> str:
    """Return unit-hours by size, which are never added."""
    sizes = sorted(unit_seconds, key=lambda size: -unit_seconds[size])
    return ", ".join(f"{hours_text(unit_seconds[size])} {size.capitalize()}" for size in sizes)


def _cells(row: GroupCost, *, address: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "keys": [
            {"name": key_text(key), "organization": key.organization, "link": _opened(key, address)}
            for key in row.keys
        ],
        "currency": row.cost.currency,
        "hours": "" if row.unit_seconds is None else hours_text(row.unit_seconds),
        "cost": _money(row.cost),
        "previous": _money(row.previous_cost),
        "growth": figure(growth_text(row)),
        "is_growing": row.growth is None or row.growth > 0,
        "share": "" if row.share is None else figure(f"{100 * row.share:.1f} %"),
        "run_rate": "" if row.run_rate is None else _money(row.run_rate),
    }


def growth_text(row: GroupCost) -> str:
    """Return the change to the days before, of which no ratio exists below zero."""
    if row.growth is None:
        return "\u2013" if row.previous_cost.minor_units else gettext("new")
    return f"{100 * row.growth:+,.1f} %"


def key_text(key: CostKey) -> str:
    """Return what people know a key by; a size is a word, and what has no value says so."""
    if key.by is CostDimension.SIZE:
        return key.name.capitalize()
    return key.name or str(LACKING[key.by])


def _opened(key: CostKey, address: Mapping[str, Any]) -> str:
    """Return the query of the page of one key alone, divided further; "" where none filters it."""
    if not key.value:
        return ""
    # The form has the projects of the chosen organization alone.
    filters = {one.value: address.get(one.value, "") for one in CostDimension}
    opened = {
        **address,
        **filters,
        key.by.value: key.value,
        **({"organization": key.organization_id} if key.organization_id else {}),
        "group_by": NEXT[key.by].value,
        "then_by": "",
    }
    return address_of(opened, preset=address.get("preset"))


def _money(amount: Money) -> str:
    return money_text(amount.amount, amount.currency)


def _charts(report: CostReport, costs: QuerySet[DailyCost]) -> list[dict[str, Any]]:
    """Return a chart for each currency, of the largest values of the first dimension."""
    query = report.query
    bars = _bars(query)
    largest = _largest(report)
    values = {value for found in largest.values() for value in found}
    names = {row.keys[0].value: _label(row.keys[0]) for row in report.rows}
    groups: dict[str, dict[str, dict[date, Decimal]]] = defaultdict(dict)
    others: dict[str, dict[date, Decimal]] = {}
    for (currency, value), products in cost_by_day(costs, query, values=values).items():
        amounts = _amounts(products, currency=currency, bars=bars)
        if value is None:
            others[currency] = amounts
        else:
            groups[currency][_unused(names[value], groups[currency])] = amounts
    title = gettext("{dimension}: cost a day in {currency}")
    if bars[0] + DAY not in {*bars, query.end}:
        title = gettext("{dimension}: cost a week in {currency}")
    return [
        stacked_days(
            title.format(dimension=LABELS[query.group_by[0]], currency=currency),
            groups[currency],
            bars,
            others=others.get(currency),
        )
        for currency in sorted(largest)
    ]


def _bars(query: CostQuery) -> list[date]:
    """Return the days of the bars, or the first days of weeks where they would be too many."""
    days = (query.end - query.first).days
    return [query.first + DAY * n for n in range(0, days, 1 if days <= BARS_MAX else 7)]


def _amounts(
    products: Mapping[date, Decimal], *, currency: str, bars: Sequence[date]
) -> dict[date, Decimal]:
    """Return the amount of each bar, rounded once."""
    added: dict[date, Decimal] = defaultdict(Decimal)
    for day, product in products.items():
        added[bars[bisect_right(bars, day) - 1]] += product
    return {bar: cost_of(product, currency=currency).amount for bar, product in added.items()}


def _largest(report: CostReport) -> dict[str, list[str]]:
    """Return the values of the first dimension with the highest costs, by currency."""
    added: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in report.rows:
        added[row.cost.currency][row.keys[0].value] += row.cost.amount
    return {
        currency: sorted(costs, key=lambda value: -costs[value])[:GROUPS_MAX]
        for currency, costs in added.items()
    }


def _unused(name: str, names: Collection[str]) -> str:
    """Return a name, numbered where another group has it, too."""
    return next(text for n in count(1) if (text := name if n == 1 else f"{name} {n}") not in names)


def _label(key: CostKey) -> str:
    return f"{key.organization} / {key_text(key)}" if key.organization else key_text(key)


@admin.register(DailyCost)
class DailyCostAdmin(LedgerAdmin):
    """Charges added up by local day."""

    view_capability = READ_CHARGE
    hint = "Each row adds the charges of a day up; it is made again when one of them changes."
    list_display = (
        "day",
        "organization",
        "project",
        "owner",
        "cluster",
        "size",
        "price_group",
        "unit_hours",
        "price_with_currency",
        "cost",
    )
    list_filter = ("size", "organization", "cluster")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {"size": GPUSize}
    list_select_related = ("organization", "project", "cluster")
    search_fields = ("owner", "project__slug", "price_group")
    day_column = "day"
    actions_list = ("costs",)

    @action(description="Costs", url_path="costs", permissions=["view"], icon="query_stats")
    def costs(self, request: HttpRequest) -> HttpResponse:
        """Show the costs of a range of days."""
        return costs_page(self, request)

    @admin.display(description="unit-hours")
    def unit_hours(self, row: DailyCost) -> str:
        """Return the quantity as printed."""
        return hours_text(row.unit_seconds)

    @admin.display(description="price")
    def price_with_currency(self, row: DailyCost) -> str:
        """Return the price."""
        price = price_text(row.unit_price, digits=MINOR_DIGITS.get(row.currency, 0))
        return f"{number_text(price)} {row.currency}"

    @admin.display(description="cost")
    def cost(self, row: DailyCost) -> str:
        """Return what it costs, rounded."""
        return _money(cost_of(row.unit_seconds * row.unit_price, currency=row.currency))
