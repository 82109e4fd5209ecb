"""The page of costs: a month by project, person, size, or model and share."""

from datetime import date
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from billing.access import exceptions_visible_to
from billing.access.costs import changed_hours_visible_to, clusters_in_use, daily_costs_visible_to
from billing.admin.cost_form import LABELS
from billing.domain.costs import DAY, CostDimension, CostQuery, parse_dimensions
from billing.domain.documents.document_text import hours_text
from billing.domain.period import Month
from billing.selectors.cost_report import cost_report
from config.app.figures import cost_cells
from config.app.frame import render_page, shown_organizations, tenant_page
from config.app.labels import month_text, time_text
from tenants.admin.base import actor_of_request
from tenants.selectors.report_database import report_database
from tenants.templatetags.texts import figure

MONTHS_SHOWN: Final = 12
ROWS_SHOWN: Final = 200
"""The file has all rows."""
DIMENSIONS: Final = (
    CostDimension.PROJECT,
    CostDimension.OWNER,
    CostDimension.SIZE,
    CostDimension.PRICE_GROUP,
)


@tenant_page
@require_safe
def costs(request: HttpRequest) -> HttpResponse:
    """Show the costs of a month, grouped by one thing."""
    actor, at = actor_of_request(request), timezone.now()
    scope = shown_organizations(request, actor)
    today = Month(at.year, at.month)
    month = Month.parse(request.GET.get("month") or today.label, field="month")
    (dimension, *_) = parse_dimensions(request.GET.get("by") or CostDimension.PROJECT)
    chosen = scope.chosen
    filters = {} if chosen is None else {CostDimension.ORGANIZATION: str(chosen.pk)}
    query = _query(month, until=at.date() + DAY, dimension=dimension, filters=filters)
    database = report_database(at=at)
    with database.reading():
        report = cost_report(
            daily_costs_visible_to(actor),
            query,
            unpriced=exceptions_visible_to(actor),
            changed=changed_hours_visible_to(actor),
            clusters=clusters_in_use(actor, query),
            at=database.as_of,
        )
    asked = {"from": str(query.first), "to": str(query.end), "group_by": dimension.value}
    asked |= {} if chosen is None else {"organization": str(chosen.pk)}
    own = {"month": month.label, **({} if chosen is None else {"organization": chosen.slug})}
    months = {today.shift(-number) for number in range(MONTHS_SHOWN)} | {month}
    context = {
        "scope": scope,
        "month": month,
        "months": [(one, month_text(one)) for one in sorted(months, reverse=True)],
        "by": dimension.value,
        "label": LABELS[dimension],
        "tabs": [
            (f"?{urlencode({**own, 'by': one.value})}", LABELS[one], one is dimension)
            for one in DIMENSIONS
        ],
        "rows": [cost_cells(row) for row in report.rows[:ROWS_SHOWN]],
        "more": max(0, len(report.rows) - ROWS_SHOWN),
        "totals": [cost_cells(row) for row in report.totals],
        "days": (query.end - query.first).days,
        "has_units": query.is_of_one_size,
        "has_pace": report.pace is not None,
        "metered_until": time_text(report.metered_until),
        "as_of": time_text(report.as_of) if database.is_replica else "",
        "gaps": report.gaps,
        "unpriced": ", ".join(
            f"{figure(hours_text(held))} {size.capitalize()}"
            for size, held in report.gaps.unpriced.items()
        ),
        "csv": f"/api/v1/costs/csv/?{urlencode(asked)}",
        "xlsx": f"/api/v1/costs/xlsx/?{urlencode(asked)}",
    }
    return render_page(
        request,
        "app/costs.html",
        context,
        title=gettext("Costs of {month}").format(month=month_text(month)),
        twin=f"/api/v1/costs/?{urlencode(asked)}",
    )


def _query(
    month: Month, *, until: date, dimension: CostDimension, filters: dict[CostDimension, str]
) -> CostQuery:
    """Return the query of a month, of the running one up to today."""
    first, after = date(month.year, month.month, 1), month.shift(1)
    end = date(after.year, after.month, 1)
    return CostQuery(first, end if until <= first else min(end, until), (dimension,), filters)
