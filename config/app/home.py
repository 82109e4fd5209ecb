"""The home page: what this month costs, what may still start, what is wasted and asked for."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from billing.access import exceptions_visible_to, savings_visible_to
from billing.access.costs import changed_hours_visible_to, clusters_in_use, daily_costs_visible_to
from billing.admin.amounts import saving_text
from billing.domain.costs import DAY, CostDimension, CostQuery, GroupCost, growth_of
from billing.domain.money import Money
from billing.selectors.cost_report import CostReport, cost_report, total_costs
from billing.selectors.waste import SavingTotal, saving_totals
from config.app.figures import amount_of, change_text, cost_cells, taken_text
from config.app.frame import render_page, shown_organizations, tenant_page
from config.app.labels import time_text, word
from metering.access import waste_visible_to
from metering.domain.figures import unit_hours_text
from metering.models import WasteFinding, WasteState
from metering.selectors.efficiency import WASTED_ORDER
from quotas.access import limits_visible_to, requests_visible_to
from quotas.models import QuotaLimit, RequestState
from quotas.selectors.limits.units_now import LimitUse, limit_use
from quotas.services.requests.news import text_of
from tenants.admin.base import actor_of_request
from tenants.templatetags.texts import NONE, figure

ROWS_MAX: Final = 20
"""Of each table; the other pages have all rows."""
FINDINGS_MAX: Final = 5
SHORT_UNITS: Final = 1
"""A limit with so few free units is shown as nearly full."""


@tenant_page
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show the person's organizations and projects at a glance."""
    actor, at = actor_of_request(request), timezone.now()
    scope = shown_organizations(request, actor)
    chosen = {} if scope.chosen is None else {"organization": scope.chosen.pk}
    today = at.date()
    costs = daily_costs_visible_to(actor).filter(**chosen)
    filters = {CostDimension(name): str(key) for name, key in chosen.items()}
    query = CostQuery(today.replace(day=1), today + DAY, (CostDimension.PROJECT,), filters)
    report = cost_report(
        costs,
        query,
        unpriced=exceptions_visible_to(actor).filter(**chosen),
        changed=changed_hours_visible_to(actor).filter(**chosen),
        clusters=clusters_in_use(actor, query),
        at=at,
    )
    limits = list(limits_visible_to(actor).filter(user=None, **chosen)[: ROWS_MAX + 1])
    uses = limit_use(limits[:ROWS_MAX], at=at, burst_classes=settings.BURST_PRIORITY_CLASSES)
    asked = requests_visible_to(actor).filter(state=RequestState.SUBMITTED, **chosen)
    wasted = waste_visible_to(actor).filter(state=WasteState.OPEN, **chosen)
    savings = savings_visible_to(actor).filter(state=WasteState.OPEN, **chosen)
    context = {
        "scope": scope,
        "has_role": bool(actor.grants),
        "month": today,
        "metered_until": time_text(report.metered_until),
        "gaps": report.gaps,
        "cards": _cards(report, total_costs(costs, _last_month(today))),
        "rows": [cost_cells(row) for row in report.rows[:ROWS_MAX]],
        "days_before": (report.query.end - report.query.first).days,
        "more_rows": max(0, len(report.rows) - ROWS_MAX),
        "limits": [_limit(one, uses[one.pk]) for one in limits[:ROWS_MAX] if one.pk in uses],
        "has_more_limits": len(limits) > ROWS_MAX,
        "findings": [_finding(one) for one in wasted.order_by(WASTED_ORDER.desc())[:FINDINGS_MAX]],
        "findings_link": "/api/v1/waste-findings/?state=open",
        "savings": [_saving(one) for one in saving_totals(savings, at=at)],
        # The thread is on the page of each.
        "asked": [
            (one, text_of(one)) for one in asked.prefetch_related(None).order_by("-pk")[:ROWS_MAX]
        ],
    }
    return render_page(
        request,
        "app/home.html",
        context,
        title=gettext("Home"),
        twin=f"/api/v1/costs/?from={report.query.first}&to={report.query.end}&group_by=project",
    )


def _last_month(today: date) -> CostQuery:
    first = today.replace(day=1)
    return CostQuery((first - DAY).replace(day=1), first, (CostDimension.SIZE,))


def _cards(report: CostReport, last_month: Mapping[str, Money]) -> list[dict[str, str]]:
    """Return cost so far, run rate and last month of each currency."""
    totals = {row.cost.currency: row for row in report.totals}
    return [
        _card(totals.get(currency), last_month.get(currency, Money.zero(currency)))
        for currency in sorted({*totals, *last_month})
    ]


def _card(total: GroupCost | None, before: Money) -> dict[str, str]:
    zero = Money.zero(before.currency)
    run_rate = None if total is None else total.run_rate
    change = None if run_rate is None else growth_of(run_rate, before=before)
    return {
        "cost": amount_of(zero if total is None else total.cost),
        "run_rate": NONE if run_rate is None else amount_of(run_rate),
        "before": amount_of(before),
        "change": change_text(change),
    }


def _limit(limit: QuotaLimit, use: LimitUse) -> dict[str, Any]:
    headroom = use.headroom
    parts = [limit.get_size_display(), limit.model_group]
    parts += [gettext("on {cluster}").format(cluster=limit.cluster.slug)] if limit.cluster else []
    return {
        "holder": limit.organization.name if limit.project is None else limit.project.name,
        "is_whole": limit.project is None,
        "size": " ".join(part for part in parts if part),
        "taken": taken_text(headroom, is_unlimited=use.in_force.nominal_units is None),
        "headroom": headroom,
        "free": NONE if headroom.free_units is None else str(headroom.free_units),
        "is_short": headroom.free_units is not None and headroom.free_units <= SHORT_UNITS,
        "is_suspended": use.in_force.is_suspended,
    }


def _finding(finding: WasteFinding) -> dict[str, str]:
    wasted = finding.known_wasted_unit_seconds
    return {
        "rule": word(finding.rule),
        "pod": f"{finding.namespace}/{finding.pod_name}",
        "owner": finding.owner,
        "held": f"{finding.units} {finding.size.capitalize()}",
        "wasted": gettext("unknown") if wasted is None else figure(unit_hours_text(wasted)),
    }


def _saving(total: SavingTotal) -> dict[str, Any]:
    return {
        "findings": total.findings,
        "unknown": total.unknown,
        "monthly": saving_text(total.monthly, total.monthly_product),
        "lost": saving_text(total.lost, total.lost_product),
    }
