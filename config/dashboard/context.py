"""What the dashboard's template is given, made of the apps' frozen facts."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from billing.selectors.costs import cost_by_day, cost_by_organization, cost_by_size, unpriced_use
from billing.selectors.invoices import invoices_of_month
from config.dashboard import parts
from config.dashboard.health import health_table
from config.dashboard.waiting import waiting_table
from metering.selectors.capacity import capacity_totals
from metering.selectors.exceptions import open_exception_totals
from metering.selectors.health import health_totals
from metering.selectors.windows import cluster_progress
from quotas.models import QuotaRequest, RequestState
from tenants.admin.base import actor_of_request
from tenants.models import Cluster

MONTHS_SHOWN = 3
YEARS = range(2000, 3000)
NEEDED = ("billing:charge:read", "metering:usage:read")


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the dashboard to the index page's context; nothing for those who may not see it."""
    context["title"] = "Dashboard"
    actor = actor_of_request(request)
    if all(actor.may(capability) for capability in NEEDED):
        at = timezone.now()
        begin_at = shown_month(request.GET.get("month", ""), at=at)
        context["dashboard"] = build_dashboard(begin_at, at=at)
    return context


def shown_month(wanted: str, *, at: datetime) -> datetime:
    """Return the begin of the asked month, or of the present one for none or nonsense."""
    try:
        begin_at = datetime.strptime(wanted, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return month_of(at)
    return begin_at if begin_at.year in YEARS else month_of(at)


def month_of(moment: datetime) -> datetime:
    """Return the begin of a moment's UTC month."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def build_dashboard(begin_at: datetime, *, at: datetime) -> dict[str, Any]:
    """Return everything the page shows of one UTC month."""
    end_at = month_of(begin_at + timedelta(days=32))
    costs = cost_by_organization(begin_at=begin_at, end_at=end_at)
    requests = QuotaRequest.objects.filter(state=RequestState.SUBMITTED.value).count()
    exceptions = open_exception_totals(begin_at=begin_at, end_at=end_at)
    invoices = invoices_of_month(f"{begin_at:%Y-%m}")
    capacity = capacity_totals(begin_at=begin_at, end_at=end_at)
    sizes = cost_by_size(begin_at=begin_at, end_at=end_at)
    names = _cluster_names()
    return {
        "month_name": f"{begin_at:%B %Y}",
        "months": _tabs(begin_at, at=at),
        "cards": parts.cards(costs, sizes=sizes, capacity=capacity),
        "cost_charts": parts.cost_charts(
            cost_by_day(begin_at=begin_at, end_at=end_at), begin_at=begin_at, end_at=end_at
        ),
        "organizations": parts.organization_table(costs, sizes=sizes, invoices=invoices),
        "capacity": parts.capacity_bars(capacity, names=names),
        "health": health_table(health_totals(begin_at=begin_at, end_at=end_at), names=names),
        "waiting": waiting_table(
            exceptions,
            begin_at=begin_at,
            progress=cluster_progress(begin_at=begin_at, end_at=end_at),
            unpriced=unpriced_use(),
            drafts=[invoice for invoice in invoices if invoice.state == "draft"],
            requests=requests,
        ),
    }


def _cluster_names() -> Mapping[object, str]:
    return dict(Cluster.objects.values_list("id", "name"))


def _tabs(shown: datetime, *, at: datetime) -> list[dict[str, Any]]:
    months, month = [], month_of(at)
    for _ in range(MONTHS_SHOWN):
        months.append(month)
        month = month_of(month - timedelta(days=1))
    return [
        {"label": f"{one:%Y-%m}", "name": f"{one:%B}", "is_shown": one == shown}
        for one in reversed(months)
    ]
