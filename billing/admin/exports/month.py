"""The button "Export month": a month of one or of all organizations as one file."""

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from billing.access import READ_JOURNAL
from billing.access.exports import access_charged
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.adapters.terms import invoice_terms
from billing.domain.exports.bundle import bundle_name
from billing.domain.period import Month
from billing.selectors.exports.focus import FocusScope
from billing.services.exports.month import stream_month
from tenants.access import is_platform_wide
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.errors import DomainError
from tenants.selectors.report_database import report_database


def export_month(
    page: LedgerAdmin, request: HttpRequest, label: str, *, organization: str = "", back: str
) -> HttpResponseBase:
    """Return a month's bundle while it is made, or go back with the reason why not."""
    actor = actor_of_request(request)
    try:
        month = Month.parse(label, field="month")
        organization_ids = access_charged(actor, organization)
    except DomainError as error:
        page.report_refusal(request, error)
        return redirect(back)
    at = timezone.now()
    database = report_database(at=at)
    blocks = stream_month(
        month=month,
        scope=FocusScope(organization_ids, issuer=invoice_terms().issuer.name),
        annexed=organization_ids if settings.USAGE_ANNEX else (),
        with_journal=is_platform_wide(actor, READ_JOURNAL),
        makers=BUNDLE_MAKERS,
        database=database,
        at=at,
    )
    name = bundle_name(month, organization)
    return StreamingHttpResponse(
        blocks,
        content_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
            **database.headers,
        },
    )
