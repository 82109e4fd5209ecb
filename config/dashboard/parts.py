"""The dashboard's parts: cards, charts, tables and bars, from frozen facts to template values."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby, islice
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from billing.admin.cost_charts import GROUPS_MAX, stacked_days
from billing.domain.money import Money, cost_of
from billing.selectors.costs import OrganizationCost
from billing.selectors.documents.invoices import InvoiceFact
from metering.domain.catalogue.units import GPUSize
from metering.selectors.collection.usage import CapacityTotal
from tenants.templatetags.texts import figure, value_text

SECONDS_PER_HOUR: Final = 3600
ORGANIZATIONS_SHOWN: Final = 20
"""In the table; the page of costs has all."""
PART_COLORS: Final = {
    gettext_noop("Billed"): "bg-primary-600 dark:bg-primary-500",
    gettext_noop("Held back"): "bg-orange-500",
    gettext_noop("Idle"): "",
}
"""Classes that unfold's stylesheet holds; idle is the bar's own ground."""


def unit_hours(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours, for people."""
    return figure(f"{Decimal(unit_seconds) / SECONDS_PER_HOUR:,.1f}")


def sizes_text(unit_seconds: Mapping[str, int]) -> str:
    """Return unit-seconds by size, such as "1.5 small, 2.0 large unit-hours"."""
    by_size = _by_size(unit_seconds.items())
    quantities = ", ".join(f"{unit_hours(seconds)} {size}" for size, seconds in by_size.items())
    return gettext("{quantity} unit-hours").format(quantity=quantities)


def cards(
    costs: Collection[OrganizationCost], *, capacity: Iterable[CapacityTotal]
) -> list[dict[str, Any]]:
    """Return one card per currency, one of charged use, and one of idle capacity, both by size.

    Money of one currency is added up; unit-hours of two sizes are two things and never are.
    """
    by_currency: dict[str, Decimal] = defaultdict(Decimal)
    for one in costs:
        by_currency[one.cost.currency] += one.product
    charges = reverse("admin:billing_charge_changelist")
    made = [
        {
            "title": gettext("Cost in {currency}").format(currency=currency),
            "value": money(cost_of(product, currency=currency)),
            "note": gettext("Charged so far, before rounding by line."),
            "link": charges,
        }
        for currency, product in sorted(by_currency.items())
    ]
    return [*made, _charged_card(costs), _idle_card(capacity)]


def _charged_card(costs: Iterable[OrganizationCost]) -> dict[str, Any]:
    used = _by_size(sized for one in costs for sized in one.unit_seconds.items())
    return {
        "title": gettext("Charged use"),
        "value": "" if used else gettext("none"),
        "lines": [
            {
                "name": size.capitalize(),
                "value": gettext("{quantity} unit-hours").format(quantity=unit_hours(unit_seconds)),
            }
            for size, unit_seconds in used.items()
        ],
        "note": gettext("Units are added per size, never over sizes."),
        "link": reverse("admin:metering_usagerecord_changelist"),
    }


def _idle_card(capacity: Iterable[CapacityTotal]) -> dict[str, Any]:
    sized = [total for total in capacity if total.size]
    offered = _by_size((total.size, total.capacity_unit_seconds) for total in sized)
    idle = _by_size((total.size, total.idle_unit_seconds) for total in sized)
    known = {size: whole for size, whole in offered.items() if whole}
    return {
        "title": gettext("Idle capacity"),
        "value": "" if known else gettext("none offered"),
        "lines": [
            {"name": size.capitalize(), "value": f"{figure(_percent(idle[size], of=whole))} %"}
            for size, whole in known.items()
        ],
        "note": gettext("Of {sizes}.").format(sizes=sizes_text(known)) if known else "",
        "link": reverse("admin:metering_capacityrecord_changelist"),
    }


def _by_size(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return unit-seconds by size, from small to large; sizes that are not found are left out."""
    added: dict[str, int] = defaultdict(int)
    for size, unit_seconds in found:
        added[size] += unit_seconds
    return {size.value: added[size.value] for size in GPUSize if size.value in added}


def largest_organizations(costs: Iterable[OrganizationCost]) -> dict[str, str]:
    """Return the names, by id, of those that a chart shows: the largest of each currency."""
    names: dict[str, str] = {}
    for _, found in groupby(costs, key=lambda one: one.cost.currency):
        for one in islice(found, GROUPS_MAX):
            name = one.organization_name
            is_taken = name in names.values()
            names[str(one.organization_id)] = f"{name} ({one.organization})" if is_taken else name
    return names


def cost_charts(
    days: Mapping[tuple[str, str | None], Mapping[date, Decimal]],
    *,
    names: Mapping[str, str],
    begin_at: datetime,
    end_at: datetime,
) -> list[dict[str, Any]]:
    """Return one stacked bar chart per currency: cost a day of its largest organizations.

    Args:
        days: Exact costs by currency, organization (None: all that have no name) and day.
        names: Of the organizations, by id.
        begin_at: Begin of the month.
        end_at: Its end.
    """
    groups: dict[str, dict[str, dict[date, Decimal]]] = defaultdict(dict)
    others: dict[str, dict[date, Decimal]] = {}
    for (currency, organization), products in days.items():
        amounts = {
            day: cost_of(product, currency=currency).amount for day, product in products.items()
        }
        if organization is None:
            others[currency] = amounts
        else:
            groups[currency][names[organization]] = amounts
    dates = [
        (begin_at + timedelta(days=number)).date() for number in range((end_at - begin_at).days)
    ]
    return [
        stacked_days(
            gettext("Cost a day by organization, {currency}").format(currency=currency),
            groups[currency],
            dates,
            others=others.get(currency),
        )
        for currency in sorted({*groups, *others})
    ]


def cell(text: str, *, link: str = "", is_number: bool = False) -> dict[str, Any]:
    """Return one cell of a table, as its template takes it."""
    return {"text": text, "link": link, "is_number": is_number}


def number(text: str) -> dict[str, Any]:
    """Return a right-aligned cell."""
    return cell(text, is_number=True)


def page_of(table: str, **filters: object) -> str:
    """Return the address of a table of the admin, showing only some of its rows."""
    return f"{reverse(f'admin:{table}_changelist')}?{urlencode(filters)}"


def organization_table(
    costs: Iterable[OrganizationCost], *, invoices: Iterable[InvoiceFact]
) -> dict[str, Any]:
    """Return unit-hours by size, cost and invoice of the organizations with the largest costs."""
    by_organization = {(one.organization_id, one.total.currency): one for one in invoices}
    return {
        "headers": [
            cell(gettext("Organization")),
            *(
                number(gettext("{size} unit-hours").format(size=size.value.capitalize()))
                for size in GPUSize
            ),
            number(gettext("Cost")),
            cell(gettext("Invoice")),
            number(gettext("Invoiced")),
        ],
        "rows": [
            [
                cell(one.organization_name),
                *(number(unit_hours(one.unit_seconds.get(size.value, 0))) for size in GPUSize),
                number(money(one.cost)),
                *_invoice_cells(by_organization.get((one.organization_id, one.cost.currency))),
            ]
            for one in islice(costs, ORGANIZATIONS_SHOWN)
        ],
    }


def money(value: Money) -> str:
    """Return an amount with its currency, for people."""
    return f"{figure(f'{value.amount:,}')} {value.currency}"


def _invoice_cells(invoice: InvoiceFact | None) -> list[dict[str, Any]]:
    if invoice is None:
        return [cell(gettext("not yet")), number("")]
    link = reverse("admin:billing_invoice_change", args=[invoice.id])
    return [cell(value_text(invoice.reference), link=link), number(money(invoice.total))]


def capacity_bars(
    totals: Iterable[CapacityTotal], *, names: Mapping[object, str]
) -> list[dict[str, Any]]:
    """Return a bar per cluster and price group: which part was billed, held and idle.

    What no rule could size has no bar: its units are not comparable with those of any size.
    """
    offered = [total for total in totals if total.capacity_unit_seconds]
    offered.sort(key=lambda total: (names[total.cluster_id], not total.size, total.price_group))
    return [_bar(total, name=names[total.cluster_id]) for total in offered]


def _bar(total: CapacityTotal, *, name: str) -> dict[str, Any]:
    if not total.size:
        return {
            "title": gettext("{cluster}: devices no rule knows").format(cluster=name),
            "note": gettext("not counted"),
            "parts": [],
        }
    return {
        "title": f"{name}: {total.price_group}",
        "note": gettext("{quantity} unit-hours").format(
            quantity=f"{unit_hours(total.capacity_unit_seconds)} {total.size}"
        ),
        "parts": [
            {
                "title": gettext(part),
                "percent": _percent(unit_seconds, of=total.capacity_unit_seconds),
                "color": PART_COLORS[part],
            }
            for part, unit_seconds in (
                ("Billed", total.billed_unit_seconds),
                ("Held back", total.held_unit_seconds),
                ("Idle", total.idle_unit_seconds),
            )
        ],
    }


def _percent(part: int, *, of: int) -> str:
    return str((Decimal(100 * part) / of).quantize(Decimal("0.1")))
