"""Context of the dashboard's template: cluster health, open reviews, and the rest."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from billing.access.costs import daily_costs_visible_to
from billing.domain.costs import CostQuery
from billing.models import DailyCost, Invoice
from billing.selectors.cost_report import cost_by_day, last_day_with_costs
from billing.selectors.costs import UnpricedFact, costs_by_organization, unpriced_use
from billing.selectors.documents.invoices import invoices_of_month
from billing.selectors.pricing.price_calendars import calendars_ending
from config.dashboard import parts
from config.dashboard.parts import cell, number, page_of, sizes_text
from metering.domain.corrections.exceptions import ExceptionKind
from metering.domain.figures import duration_text, ratio_text
from metering.selectors.collection.usage import capacity_totals
from metering.selectors.collection.windows import ClusterProgress, cluster_progress, sealed_until
from metering.selectors.corrections.exceptions import ExceptionTotal, open_exception_totals
from metering.selectors.devices.usage import HealthTotal, health_totals
from quotas.models import QuotaRequest, RequestState
from tenants.admin.base import actor_of_request
from tenants.models import Cluster
from tenants.templatetags.texts import figure, value_text


def health_table(totals: Iterable[HealthTotal], *, names: Mapping[object, str]) -> dict[str, Any]:
    """Return a row per cluster, by name: nodes ready, queue, and what broke."""
    rows = sorted(totals, key=lambda total: names[total.cluster_id])
    return {
        "headers": [
            cell(gettext("Cluster")),
            number(gettext("Nodes ready")),
            number(gettext("Most pods waiting")),
            number(gettext("Longest wait")),
            number(gettext("Memory errors")),
            number(gettext("Failures")),
        ],
        "rows": [_row(total, name=names[total.cluster_id]) for total in rows],
    }


def _row(total: HealthTotal, *, name: str) -> list[dict[str, Any]]:
    pending = total.pending_pods_max
    hours = page_of("metering_clusterhealth", cluster__id__exact=total.cluster_id)
    events = page_of(
        "metering_deviceevent", cluster__id__exact=total.cluster_id, severity__exact="fail"
    )
    return [
        cell(name, link=hours),
        number(figure(ratio_text(total.ready_seconds, total.expected_seconds))),
        number("-" if pending is None else figure(f"{pending:,}")),
        number(duration_text(total.wait_seconds_max)),
        number(figure(f"{total.memory_errors:,}")),
        cell(figure(f"{total.failures:,}"), link=events if total.failures else "", is_number=True),
    ]


def waiting_table(
    exceptions: Iterable[ExceptionTotal],
    *,
    begin_at: datetime,
    progress: Iterable[ClusterProgress],
    unpriced: Iterable[UnpricedFact],
    drafts: int,
    requests: int,
) -> dict[str, Any]:
    """Return the items that need review, with subject and count."""
    last = month_of(begin_at + timedelta(days=32)) - timedelta(days=1)
    shown = f"{begin_at:%Y-%m-%d}", f"{last:%Y-%m-%d}"
    rows = [_exception_row(total, days=_days_of("window_start", shown)) for total in exceptions]
    hours = page_of(
        "metering_meteringwindow",
        state__in="gap,quarantined",
        **_days_of("start_at", shown),
    )
    gaps = sum(one.waiting for one in progress)
    rows.append(
        _waiting(
            gettext("Hours that stayed blind"), gettext("accept or waive each"), gaps, link=hours
        )
    )
    rows += _unpriced_rows(tuple(unpriced))
    invoices = page_of("billing_invoice", state__exact="draft", period__label=f"{begin_at:%Y-%m}")
    asked = page_of("quotas_quotarequest", state__exact="submitted")
    rows += [
        _waiting(
            gettext("Invoices to finalize"),
            gettext("by another person than the drafter"),
            drafts,
            link=invoices,
        ),
        _waiting(gettext("Quota requests"), gettext("approve or reject"), requests, link=asked),
    ]
    return {
        "headers": [cell(gettext("To do")), cell(gettext("About")), number(gettext("Count"))],
        "rows": [row for row in rows if row],
    }


def _unpriced_rows(unpriced: Sequence[UnpricedFact]) -> list[list[dict[str, Any]]]:
    """Return a row for each organization with use without a price; of many, one of all."""
    if len(unpriced) > ORGANIZATIONS_NAMED:
        link = page_of("billing_accrualexception", resolved_at__isempty=1)
        about = gettext("{count} organizations").format(count=len(unpriced))
        found = sum(fact.exceptions for fact in unpriced)
        return [_waiting(gettext("No price"), about, found, link=link)]
    return [
        _waiting(
            gettext("No price: {organization}").format(organization=fact.organization),
            sizes_text(fact.unit_seconds),
            fact.exceptions,
            link=page_of(
                "billing_accrualexception",
                organization__id__exact=fact.organization_id,
                resolved_at__isempty=1,
            ),
        )
        for fact in unpriced
    ]


def _days_of(column: str, days: tuple[str, str]) -> dict[str, str]:
    """Return the filter of a list's days."""
    first, last = days
    return {f"{column}_from": first, f"{column}_to": last}


def _exception_row(total: ExceptionTotal, *, days: Mapping[str, str]) -> list[dict[str, Any]]:
    return _waiting(
        gettext("Exception: {kind}").format(kind=value_text(ExceptionKind(total.kind).value)),
        _held_text(total),
        total.exceptions,
        link=page_of(
            "metering_meteringexception", state__exact="open", kind__exact=total.kind, **days
        ),
    )


def with_calendars(table: dict[str, Any], ending: int) -> dict[str, Any]:
    """Return the items that need review, with calendars of prices that end soon."""
    link = page_of("billing_pricecalendar", superseded_at__isempty=1)
    row = _waiting(
        gettext("Price calendars that end"), gettext("publish the next ones"), ending, link=link
    )
    return {**table, "rows": [*table["rows"], *([row] if row else [])]}


def _waiting(what: str, about: str, count: int, *, link: str) -> list[dict[str, Any]]:
    """Return a row that leads to what waits, or none when nothing does."""
    return [cell(what, link=link), cell(about), number(figure(f"{count:,}"))] if count else []


def _held_text(total: ExceptionTotal) -> str:
    """Return whether a kind has any units; the linked page shows them by size."""
    if not total.held_unit_seconds:
        return gettext("nothing held")
    if total.kind == ExceptionKind.UNKNOWN_DEVICE.value:
        return gettext("held, in units no rule knows")
    return gettext("use is held")


MONTHS_SHOWN = 3
ORGANIZATIONS_NAMED = 5
"""Of those whose use has no price: each has a row of its own."""
YEARS = range(2000, 2199)
"""With costs: the months of a later year cannot be reported."""
NEEDED = ("billing:charge:read", "metering:usage:read")


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the dashboard to the index page's context; nothing for users without permission."""
    context["title"] = gettext("Dashboard")
    actor = actor_of_request(request)
    if all(actor.may(capability) for capability in NEEDED):
        at = timezone.now()
        costs = daily_costs_visible_to(actor)
        last = last_day_with_costs(costs) or at.date()
        latest = min(at, datetime(last.year, last.month, last.day, tzinfo=UTC))
        begin_at = shown_month(request.GET.get("month", ""), at=latest)
        context["dashboard"] = build_dashboard(costs, begin_at, at=at)
    return context


def shown_month(wanted: str, *, at: datetime) -> datetime:
    """Return the begin of the requested month; of that of `at` if missing or invalid."""
    try:
        begin_at = datetime.strptime(wanted, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return month_of(at)
    return begin_at if begin_at.year in YEARS else month_of(at)


def month_of(moment: datetime) -> datetime:
    """Return the begin of a moment's UTC month."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def build_dashboard(
    costs: QuerySet[DailyCost], begin_at: datetime, *, at: datetime
) -> dict[str, Any]:
    """Return everything the page shows of one month.

    Args:
        costs: What the actor sees.
        begin_at: Begin of the month in UTC; costs are of the same days in each organization's
            time zone.
        at: Now.
    """
    end_at = month_of(begin_at + timedelta(days=32))
    query = CostQuery(first=begin_at.date(), end=end_at.date())
    organizations = costs_by_organization(costs, first=query.first, end=query.end)
    charted = parts.largest_organizations(organizations)
    requests = QuotaRequest.objects.filter(state=RequestState.SUBMITTED.value).count()
    exceptions = open_exception_totals(begin_at=begin_at, end_at=end_at)
    month = f"{begin_at:%Y-%m}"
    listed = {one.organization_id for one in organizations[: parts.ORGANIZATIONS_SHOWN]}
    invoices = invoices_of_month(month, organization_ids=listed)
    capacity = capacity_totals(begin_at=begin_at, end_at=end_at)
    names = _cluster_names()
    days = {"begin": f"{begin_at:%Y-%m-%d}", "last": f"{end_at - timedelta(days=1):%Y-%m-%d}"}
    return {
        "month_name": date_format(begin_at, "F Y"),
        "metered_until": sealed_until(Cluster.objects.all()),
        "costs_link": f"{reverse('admin:billing_dailycost_costs')}?{urlencode(days)}",
        "months": _tabs(begin_at, at=at),
        "cards": parts.cards(organizations, capacity=capacity),
        "cost_charts": parts.cost_charts(
            cost_by_day(costs, query, values=charted),
            names=charted,
            begin_at=begin_at,
            end_at=end_at,
        ),
        "organizations": parts.organization_table(organizations, invoices=invoices),
        "more_organizations": max(0, len(organizations) - parts.ORGANIZATIONS_SHOWN),
        "capacity": parts.capacity_bars(capacity, names=names),
        "health": health_table(health_totals(begin_at=begin_at, end_at=end_at), names=names),
        "waiting": with_calendars(
            waiting_table(
                exceptions,
                begin_at=begin_at,
                progress=cluster_progress(begin_at=begin_at, end_at=end_at),
                unpriced=unpriced_use(),
                drafts=Invoice.objects.filter(period__label=month, state="draft").count(),
                requests=requests,
            ),
            calendars_ending(at=at).count(),
        ),
    }


def _cluster_names() -> Mapping[object, str]:
    return dict(Cluster.objects.values_list("id", "name"))


def _tabs(shown: datetime, *, at: datetime) -> list[dict[str, Any]]:
    months, month = [], month_of(at)
    for _ in range(MONTHS_SHOWN):
        months.append(month)
        month = month_of(month - timedelta(days=1))
    if shown not in months:
        months.append(shown)
    return [
        {"label": f"{one:%Y-%m}", "name": date_format(one, "F"), "is_shown": one == shown}
        for one in sorted(months)
    ]
