"""Documents for tests: composed by the product from a few figures."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from billing.domain.documents.document import Document, Party, PeriodFacts, compose_document
from billing.domain.documents.invoicing import ChargeSum, compose_lines
from billing.domain.period import Month, month_hours

DRAFTED_AT = datetime(2026, 11, 2, 9, tzinfo=UTC)
Figures = tuple[str, str, str, str, int]
"""Project slug, size, price group, price, unit-seconds."""
ONE_LINE: tuple[Figures, ...] = (("llm", "small", "H100/whole", "2.00", 3600),)


def make_document(
    *,
    lines: Iterable[Figures] = ONE_LINE,
    customer: Party | None = None,
    project_name: str = "",
    currency: str = "EUR",
) -> Document:
    """Return a draft of October 2026 in Berlin."""
    charges = [
        ChargeSum(
            project_id=f"id-{project}",
            project=project,
            project_name=project_name or project.upper(),
            cost_center="CC-1",
            size=size,
            price_group=group,
            unit_price=Decimal(price),
            unit_seconds=unit_seconds,
        )
        for project, size, group, price, unit_seconds in lines
    ]
    zone = "Europe/Berlin"
    return compose_document(
        issuer=Party(name="GPU Platform", address="Main Street 1\nBerlin", tax_id="DE1"),
        customer=customer or Party(name="Acme"),
        period=PeriodFacts("2026-10", zone, month_hours(Month(2026, 10), ZoneInfo(zone))),
        lines=compose_lines(charges, currency=currency),
        currency=currency,
        drafted_at=DRAFTED_AT,
    )
