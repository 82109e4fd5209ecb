"""The dashboard's parts: cards, charts, tables and bars, from frozen facts to template values."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.urls import reverse

from billing.selectors.costs import CostFact, UnpricedFact
from billing.selectors.invoices import InvoiceFact
from metering.domain.exceptions import ExceptionKind
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.capacity import CapacityTotal
from metering.selectors.exceptions import ExceptionTotal
from metering.selectors.windows import ClusterProgress

SECONDS_PER_HOUR: Final = 3600
PALETTE: Final = (
    "#0f766e",
    "#6366f1",
    "#f59e0b",
    "#db2777",
    "#0284c7",
    "#65a30d",
    "#9333ea",
    "#dc2626",
)
"""Told apart by colour-blind readers in this order; it repeats after eight."""
BAR_OPTIONS: Final = {
    "maintainAspectRatio": False,
    "animation": False,
    "plugins": {"legend": {"display": True, "position": "bottom"}},
    "scales": {
        "x": {"stacked": True, "grid": {"display": False}},
        "y": {"stacked": True, "beginAtZero": True, "ticks": {"display": True}},
    },
}
CAPACITY_CLASSES: Final = {
    "billed": "bg-primary-600!",
    "held": "bg-orange-500!",
    "idle": "bg-base-300! dark:bg-base-600!",
}


def unit_hours(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours, for people."""
    return f"{Decimal(unit_seconds) / SECONDS_PER_HOUR:,.1f}"


def cards(costs: Sequence[CostFact], *, capacity: Sequence[CapacityTotal]) -> list[dict[str, Any]]:
    """Return one card per currency, one of all use, and one of idle capacity."""
    by_currency: dict[str, Decimal] = defaultdict(Decimal)
    for fact in costs:
        by_currency[fact.cost.currency] += fact.cost.amount
    charges = reverse("admin:billing_charge_changelist")
    made = [
        {
            "title": f"Cost in {currency}",
            "value": f"{amount:,.2f} {currency}",
            "note": "Charged so far, before rounding by line.",
            "link": charges,
        }
        for currency, amount in sorted(by_currency.items())
    ]
    used = sum(fact.unit_seconds for fact in costs)
    made.append(
        {
            "title": "Charged use",
            "value": f"{unit_hours(used)} unit-hours",
            "note": "Small, Medium and Large units together.",
            "link": reverse("admin:metering_usagerecord_changelist"),
        }
    )
    offered = sum(total.capacity_unit_seconds for total in capacity)
    idle = sum(total.idle_unit_seconds for total in capacity)
    made.append(
        {
            "title": "Idle capacity",
            "value": f"{100 * idle // offered} %" if offered else "none offered",
            "note": f"{unit_hours(idle)} of {unit_hours(offered)} unit-hours.",
            "link": reverse("admin:metering_capacityrecord_changelist"),
        }
    )
    return made


def cost_charts(
    days: Iterable[CostFact], *, begin_at: datetime, end_at: datetime
) -> list[dict[str, Any]]:
    """Return one stacked bar chart per currency: cost a day, organization by organization."""
    table: dict[str, dict[str, dict[object, Decimal]]] = defaultdict(lambda: defaultdict(dict))
    for fact in days:
        name = fact.organization_name or fact.organization
        table[fact.cost.currency][name][fact.day] = fact.cost.amount
    dates = [
        (begin_at + timedelta(days=number)).date() for number in range((end_at - begin_at).days)
    ]
    return [
        {
            "title": f"Cost a day by organization, {currency}",
            "data": json.dumps(
                {
                    "labels": [str(date.day) for date in dates],
                    "datasets": [
                        {
                            "label": name,
                            "data": [amounts.get(date, Decimal(0)) for date in dates],
                            "backgroundColor": PALETTE[index % len(PALETTE)],
                            "displayYAxis": True,
                            "maxBarThickness": 22,
                        }
                        for index, (name, amounts) in enumerate(sorted(organizations.items()))
                    ],
                },
                cls=DjangoJSONEncoder,
            ),
            "options": json.dumps(BAR_OPTIONS),
        }
        for currency, organizations in sorted(table.items())
    ]


def organization_table(
    costs: Iterable[CostFact], *, sizes: Iterable[CostFact], invoices: Iterable[InvoiceFact]
) -> dict[str, Any]:
    """Return unit-hours by size, cost and invoice of each organization, by slug."""
    hours = {(fact.organization_id, fact.size): fact.unit_seconds for fact in sizes}
    by_organization = {invoice.organization_id: invoice for invoice in invoices}
    return {
        "headers": [
            "Organization",
            *(f"{size.value.capitalize()} unit-hours" for size in GPUSize),
            "Cost",
            "Invoice",
        ],
        "rows": [
            [
                fact.organization_name or fact.organization,
                *(unit_hours(hours.get((fact.organization_id, size.value), 0)) for size in GPUSize),
                f"{fact.cost.amount:,.2f} {fact.cost.currency}",
                _invoice_words(by_organization.get(fact.organization_id)),
            ]
            for fact in costs
        ],
    }


def _invoice_words(invoice: InvoiceFact | None) -> str:
    if invoice is None:
        return "not yet"
    return f"{invoice.reference}: {invoice.total.amount:,.2f} {invoice.total.currency}"


def capacity_bars(
    totals: Iterable[CapacityTotal], *, names: Mapping[object, str]
) -> list[dict[str, Any]]:
    """Return a bar per cluster and price group: which part was billed, held and idle."""
    return [
        {
            "title": f"{names[total.cluster_id]}: {total.price_group or 'devices no rule knows'}",
            "note": f"{unit_hours(total.capacity_unit_seconds)} unit-hours",
            "items": [
                {
                    "title": name.capitalize(),
                    "value": _percent(part, of=total.capacity_unit_seconds),
                    "progress_class": CAPACITY_CLASSES[name],
                }
                for name, part in (
                    ("billed", total.billed_unit_seconds),
                    ("held", total.held_unit_seconds),
                    ("idle", total.idle_unit_seconds),
                )
            ],
        }
        for total in totals
        if total.capacity_unit_seconds
    ]


def _percent(part: int, *, of: int) -> str:
    return str((Decimal(100 * part) / of).quantize(Decimal("0.1")))


def waiting_table(
    exceptions: Iterable[ExceptionTotal],
    *,
    progress: Iterable[ClusterProgress],
    unpriced: Iterable[UnpricedFact],
    drafts: Sequence[InvoiceFact],
    requests: int,
) -> dict[str, Any]:
    """Return what a person has to look at, what it is about, and how much of it there is."""
    rows: list[list[str]] = [
        [
            f"Exception: {ExceptionKind(total.kind).value.replace('_', ' ')}",
            f"{unit_hours(total.held_unit_seconds)} unit-hours held",
            str(total.exceptions),
        ]
        for total in exceptions
    ]
    gaps = sum(one.waiting for one in progress)
    if gaps:
        rows.append(["Hours that stayed blind", "accept or waive each", str(gaps)])
    rows += [
        [
            f"No price: {fact.organization}",
            f"{unit_hours(fact.unit_seconds)} unit-hours",
            str(fact.exceptions),
        ]
        for fact in unpriced
    ]
    if drafts:
        rows.append(["Invoices to finalize", "by another than who drafted", str(len(drafts))])
    if requests:
        rows.append(["Quota requests", "approve or reject", str(requests)])
    return {"headers": ["What", "About", "Count"], "rows": rows}
