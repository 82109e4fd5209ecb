"""A document of 2,000 lines as PDF with its e-invoice: of one project, of 40, and of 2,000.

Each is another document: Typst remembers in a process what it has laid out before.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from bench.harness import Figure, against_plain_work, measured, measurement, scaled

LINES = scaled(2_000)
PROJECTS = (1, scaled(40, least=4), LINES)
PDF_MAX = ("22.5", "24.5", 40)
"""Against the plain work."""
ZONE = "Europe/Berlin"
AT = datetime(2026, 11, 2, 9, tzinfo=UTC)
SECONDS = 3_601


def run() -> Iterator[Figure]:
    """Yield the seconds of each document, after one that loads the fonts."""
    from billing.adapters.documents import render_pdf  # noqa: PLC0415 - Loads Typst.
    from billing.domain.e_invoices.files import e_invoice_files  # noqa: PLC0415
    from billing.domain.e_invoices.invoice import EInvoiceSyntax  # noqa: PLC0415

    render_pdf(_document(lines=1, projects=1))
    for projects, limit in zip(PROJECTS, PDF_MAX, strict=True):
        document = _document(lines=LINES, projects=projects)
        e_invoice = e_invoice_files(document)[EInvoiceSyntax.CII]
        with measured() as rendered:
            content = render_pdf(document, e_invoice)
        name = f"documents.pdf_of_{projects}_projects"
        yield from against_plain_work(name, rendered.seconds, limit)
    yield measurement("documents.pdf_size", Decimal(len(content)) / 1024, "KiB")


def _document(*, lines: int, projects: int) -> dict[str, Any]:
    from billing.domain.documents.document import (  # noqa: PLC0415 - Not before it is measured.
        Party,
        PeriodFacts,
        compose_document,
        issue_document,
    )
    from billing.domain.documents.invoicing import ChargeSum, compose_lines  # noqa: PLC0415
    from billing.domain.period import Month, month_hours  # noqa: PLC0415

    charges = [
        ChargeSum(
            project_id=f"{number % projects:06d}",
            project=f"project-{number % projects:06d}",
            project_name=f"Project {number % projects} of {projects}",
            cost_center=f"CC-{number % projects}",
            size=("small", "medium", "large")[number % 3],
            price_group=f"H100/{number % 7 + 1}g.{number // projects}gb",
            unit_price=Decimal(number + 1) / 100,
            unit_seconds=SECONDS * (number + 1),
        )
        for number in range(lines)
    ]
    draft = compose_document(
        issuer=Party("GPU Platform", "Main Street 1\n10115 Berlin", tax_id="DE1", country="DE"),
        customer=Party("Acme Research", "Hafen 12\n20457 Hamburg", country="DE"),
        period=PeriodFacts("2026-10", ZONE, month_hours(Month(2026, 10), ZoneInfo(ZONE))),
        lines=compose_lines(charges, currency="EUR"),
        currency="EUR",
        drafted_at=AT,
    )
    reference = f"GL-2026-{lines:06d}"
    return issue_document(draft, reference=reference, issued_at=AT, payment_days=30)
