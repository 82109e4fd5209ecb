"""How each list of the API is narrowed to one place in the matrix of operations."""

from typing import Final

from tests.support.flows.ledger_bodies import LEDGER_LISTS

RANGE: Final = "window_start_from=2026-10-01T00:00:00Z&window_start_before=2026-12-01T00:00:00Z"
SPAN: Final = "from=2026-10-01T00:00:00Z&to=2026-10-31T00:00:00Z"
FILTERS: Final = {
    **dict.fromkeys(
        (
            "projects",
            "memberships",
            "service-accounts",
            "audit-entries",
            "quota-limits",
            "quota-grants",
            "suspensions",
            "reservations",
            "admission-refusals",
            "isolation-policies",
            "quota-requests",
            "request-policies",
            "notification-endpoints",
            "notification-deliveries",
            "preemption-plans",
            "preemption-policies",
            "protected-windows",
            "quota-usage",
            "quota-loans",
            "quota-forecasts",
            "loan-policies",
            "price-book-assignments",
            "customer-class-memberships",
            "billing-periods",
            "repricings",
            *LEDGER_LISTS,
            "charges",
            "accrual-exceptions",
            "accrual-exceptions/remedies",
            "usage-corrections",
            "waste-findings",
            "waste-savings",
            "device-usage",
            "credit-proposals",
            "invoice-parts",
            "invoices",
        ),
        "organization={organizations}",
    ),
    "usage-records": f"{RANGE}&organization={{organizations}}",
    "pod-explanations": (
        "cluster={clusters}&namespace={namespace}&pod_name=any"
        "&begin_at=2026-10-01T00:00:00Z&end_at=2026-10-02T00:00:00Z"
    ),
    "usage-summary": f"{RANGE}&group_by=owner&organization={{organizations}}",
    "reports/device-sharing": f"{SPAN}&organization={{organizations}}",
    "reports/device-sharing/csv": f"{SPAN}&organization={{organizations}}",
    "reports/unbilled-devices": SPAN,
    "reports/unbilled-devices/csv": SPAN,
    "reports/statement": "organization={organizations}&from=2026-10-01&to=2100-01-01",
    "reports/statement/csv": "organization={organizations}&from=2026-10-01&to=2100-01-01",
    "reports/statement/pdf": "organization={organizations}&from=2026-10-01&to=2100-01-01",
    **dict.fromkeys(
        ("exports/focus", "exports/month"), "month=2026-10&organization={organizations}"
    ),
    "which-price": "organization={organizations}&size=small&price_group=H100/whole",
    "export-runs": "schedule={export-schedules}",
    "headroom": "project={projects}&size=large&units=1",
    "api-tokens": "service_account={service-accounts}",
    "invitations": "project={projects}",
    "namespace-bindings": "project={projects}",
    "enforcement-targets": "project={projects}",
    "price-drafts": "price_book={price-books}",
    "tier-schedules": "price_book={price-books}",
    "price-calendars": "price_book={price-books}",
    **dict.fromkeys(
        ("project-routes", "recipients", "reports/ageing", "reports/ageing/csv", "tax-treatments"),
        "organization={organizations}",
    ),
    **dict.fromkeys(
        ("costs", "costs/csv", "costs/xlsx"),
        "organization={organizations}&from=2026-10-01&to=2026-11-01&group_by=project,owner",
    ),
    "prices": "price_book={price-books}",
    **dict.fromkeys(("metering-exceptions", "incidents"), "namespace={namespace}"),
}
"""How a list is narrowed to one place, where it can be."""
