"""Checks of what a final invoice needs: issuer, logo, tax rates and price books."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.conf import settings
from django.forms.models import model_to_dict

from billing.adapters.terms import invoice_terms
from billing.domain.documents.document import missing_of_issuer
from billing.domain.documents.taxes import TaxCategory, tax_point_of
from billing.domain.period import Month
from billing.models import Issuer, TaxTreatment
from billing.selectors.documents.taxes import organizations_without_rate
from billing.selectors.pricing.organization_books import books_without_price, without_book
from config.doctor.findings import CheckResult, counted, listed, ok, problem, warning
from tenants.models import Organization
from tenants.models.organization import LifecycleState

PAGE: Final = "docs/how-to/close-a-month.md"
PRICES_PAGE: Final = "docs/how-to/set-prices.md"


def check_issuers() -> Iterator[CheckResult]:
    """Yield whether each issuer has what must be printed of it."""
    is_taxed = (
        TaxTreatment.objects.filter(withdrawn_at=None)
        .exclude(category=TaxCategory.OUTSIDE_SCOPE)
        .exists()
    )
    taxes = [{"category": TaxCategory.STANDARD}] if is_taxed else []
    issuers = [("the site", settings.ISSUER)]
    issuers += [(issuer.slug, model_to_dict(issuer)) for issuer in Issuer.objects.all()]
    incomplete = [
        (name, missing)
        for name, fields in issuers
        if (missing := missing_of_issuer({"issuer": fields, "taxes": taxes}))
    ]
    for name, missing in incomplete:
        variables = ", ".join(f"ISSUER_{field.upper()}" for field in missing)
        remedy = (
            f"Set {variables}." if name == "the site" else "Complete it under Billing, Issuers."
        )
        yield problem(
            "issuer",
            f"The issuer ({name}) lacks {', '.join(missing)}: no invoice of it becomes final.",
            remedy,
            PAGE,
        )
    if not incomplete:
        yield ok("issuer", f"{counted(len(issuers), 'issuer')} can issue invoices.")


def check_logos() -> Iterator[CheckResult]:
    """Yield whether the logos can be read and drawn."""
    for text in invoice_terms().logo_problems.values():
        yield problem("logo", text, "Name an SVG or PNG that the service may read.", PAGE)
        return
    count = len(settings.ISSUER_LOGOS) + bool(settings.ISSUER_LOGO)
    yield ok("logo", f"{counted(count, 'logo')} can be drawn." if count else "No logo is set.")


def check_taxes(*, at: datetime) -> Iterator[CheckResult]:
    """Yield whether what organizations are taxed by has a rate, this month and the next."""
    month = Month(at.year, at.month)
    labels = (month.label, month.shift(1).label)
    for label in labels:
        missing = organizations_without_rate(tax_point=tax_point_of(label))
        if missing:
            slug, tax = missing[0]
            yield problem(
                "taxes",
                f"{label}: {counted(len({one for one, _ in missing}), 'organization')} without tax"
                f" rate; {slug} needs {tax.country}, category {tax.category}.",
                "Publish the rate under Billing, Tax rates.",
                PAGE,
            )
            return
    count = TaxTreatment.objects.filter(withdrawn_at=None).values("organization").distinct().count()
    if not count:
        yield ok("taxes", "No organization is taxed.")
        return
    yield ok(
        "taxes",
        f"All {counted(count, 'taxed organization')} have a rate in {' and '.join(labels)}.",
    )


def check_price_books(*, at: datetime) -> Iterator[CheckResult]:
    """Yield whether each organization has a book with prices, now and next month."""
    month = Month(at.year, at.month).shift(1)
    hours = (at, datetime(month.year, month.month, 1, tzinfo=at.tzinfo))
    for hour in hours:
        label = f"{hour:%Y-%m}"
        if bookless := without_book(hour=hour):
            yield problem(
                "price-books",
                f"{label}: {counted(len(bookless), 'organization')} without price book:"
                f" {listed(bookless)}.",
                "Assign a book, or a default book for all.",
                PRICES_PAGE,
            )
            return
        if empty := books_without_price(hour=hour):
            yield problem(
                "price-books",
                f"{label}: books in force without any price: {listed(empty)}.",
                "Publish prices for them.",
                PRICES_PAGE,
            )
            return
    count = Organization.objects.filter(state=LifecycleState.ACTIVE).count()
    if not count:
        yield warning(
            "price-books",
            "There is no active organization: nobody is billed.",
            "Create organizations and projects, and bind namespaces to them.",
            "docs/how-to/connect-a-cluster.md",
        )
        return
    yield ok("price-books", f"{counted(count, 'organization')} have prices now and next month.")
