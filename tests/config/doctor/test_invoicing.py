"""The doctor's checks of billing: what a final invoice needs, this month and the next."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from pytest_django import Settings

from billing.models import Price, PriceBook, PriceBookAssignment, TaxRate, TaxTreatment
from config.doctor.findings import CheckResult
from config.doctor.invoicing import (
    check_issuers,
    check_logos,
    check_price_books,
    check_taxes,
)
from tenants.models import Organization
from tests.support.builders import AT, MONTH_START, make_organization
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 12, 1, tzinfo=UTC)


@shared_rows
def acme() -> Organization:
    return make_organization("acme")


def tax(organization: Organization, category: str = "S") -> None:
    TaxTreatment.objects.create(
        organization=organization,
        country="DE",
        category=category,
        valid_from=date(2026, 1, 1),
        published_at=AT,
    )


def issuer() -> CheckResult:
    (result,) = check_issuers()
    return result


def taxes() -> CheckResult:
    (result,) = check_taxes(at=NOW)
    return result


def books() -> CheckResult:
    (result,) = check_price_books(at=NOW)
    return result


def test_an_issuer_lacks_what_its_customers_need(acme: Organization, settings: Settings) -> None:
    whole = issuer()
    settings.ISSUER = settings.ISSUER | {"bank_account": "", "tax_id": ""}
    of_untaxed = issuer()
    tax(acme)
    of_taxed = issuer()

    assert (whole.state, whole.found) == ("ok", "1 issuer can issue invoices.")
    assert of_untaxed.state == "ok"
    assert (of_taxed.state, of_taxed.found) == (
        "problem",
        "The issuer (the site) lacks tax_id, bank_account: no invoice of it becomes final.",
    )
    assert of_taxed.remedy == "Set ISSUER_TAX_ID, ISSUER_BANK_ACCOUNT."


def test_a_logo_that_cannot_be_read_is_a_problem(tmp_path: Path, settings: Settings) -> None:
    (none,) = check_logos()
    settings.ISSUER_LOGO = str(tmp_path / "logo.svg")
    (missing,) = check_logos()
    (tmp_path / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (there,) = check_logos()

    assert none.found == "No logo is set."
    assert missing.state == "problem"
    assert missing.found.startswith("ISSUER_LOGO: ")
    assert missing.remedy == "Name an SVG or PNG that the service may read."
    assert there.found == "1 logo can be drawn."


def test_a_tax_without_a_rate_is_a_problem_for_its_month(acme: Organization) -> None:
    nobody = taxes()
    tax(acme)
    missing = taxes()
    rate = TaxRate.objects.create(
        country="DE",
        category="S",
        rate=Decimal(19),
        valid_from=date(2026, 12, 1),
        published_at=AT,
    )
    only_next = taxes()
    TaxRate.objects.create(
        country="DE", category="S", rate=Decimal(7), valid_from=date(2026, 1, 1), published_at=AT
    )
    there = taxes()

    assert nobody.state == there.state == "ok"
    assert rate.valid_from == date(2026, 12, 1)
    assert (missing.state, missing.found) == (
        "problem",
        "2026-11: 1 organization without tax rate; acme needs DE, category S.",
    )
    assert missing.remedy == "Publish the rate under Billing, Tax rates."
    assert only_next.found == missing.found
    assert there.found == "All 1 taxed organization have a rate in 2026-11 and 2026-12."


def test_an_organization_needs_a_book_with_prices_next_month_too(acme: Organization) -> None:
    nothing = books()
    book = PriceBook.objects.create(slug="list", name="List", currency="EUR", created_at=AT)
    ending = DateTimeTZRange(MONTH_START, NEXT_MONTH)
    PriceBookAssignment.objects.create(
        organization=acme, price_book=book, valid=ending, published_at=AT
    )
    empty = books()
    Price.objects.create(
        price_book=book,
        size="small",
        unit_price=Decimal(1),
        valid=DateTimeTZRange(MONTH_START, None),
        published_at=AT,
    )
    ended = books()
    PriceBookAssignment.objects.create(
        organization=acme,
        price_book=book,
        valid=DateTimeTZRange(NEXT_MONTH, None),
        published_at=AT,
    )
    there = books()

    assert [(one.state, one.found) for one in (nothing, empty, ended, there)] == [
        ("problem", "2026-11: 1 organization without price book: acme."),
        ("problem", "2026-11: books in force without any price: list."),
        ("problem", "2026-12: 1 organization without price book: acme."),
        ("ok", "1 organization have prices now and next month."),
    ]
    assert nothing.remedy == "Assign a book, or a default book for all."


def test_without_organizations_nobody_is_billed() -> None:
    assert (books().state, books().found) == (
        "warning",
        "There is no active organization: nobody is billed.",
    )
