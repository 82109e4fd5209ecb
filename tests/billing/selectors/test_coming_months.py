"""What a coming month lacks: tax rates and price books of active organizations."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.domain.documents.taxes import TaxKey
from billing.models import (
    OrganizationBook,
    Price,
    PriceBook,
    PriceBookAssignment,
    Recipient,
    TaxRate,
    TaxTreatment,
)
from billing.selectors.documents.taxes import organizations_without_rate
from billing.selectors.pricing.organization_books import books_without_price, without_book
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tests.support.builders import AT, MONTH_START, make_organization

pytestmark = pytest.mark.django_db
HOUR = datetime(2026, 12, 1, tzinfo=UTC)
TAX_POINT = date(2026, 12, 31)
OPEN = DateTimeTZRange(MONTH_START, None)


def treat(
    organization: Organization,
    category: str = "S",
    *,
    country: str = "DE",
    valid_from: date = date(2026, 1, 1),
    withdrawn_at: datetime | None = None,
) -> None:
    TaxTreatment.objects.create(
        organization=organization,
        country=country,
        category=category,
        valid_from=valid_from,
        published_at=AT,
        withdrawn_at=withdrawn_at,
    )


def rate(
    country: str = "DE",
    *,
    valid_from: date = date(2026, 1, 1),
    withdrawn_at: datetime | None = None,
) -> None:
    TaxRate.objects.create(
        country=country,
        category="S",
        rate=Decimal(19),
        valid_from=valid_from,
        published_at=AT,
        withdrawn_at=withdrawn_at,
    )


def make_book(slug: str, **fields: object) -> PriceBook:
    return PriceBook.objects.create(
        slug=slug, name=slug.title(), currency="EUR", created_at=AT, **fields
    )


def assign(book: PriceBook, organization: Organization | None = None) -> None:
    PriceBookAssignment.objects.create(
        organization=organization, price_book=book, valid=OPEN, published_at=AT
    )


def price(book: PriceBook, **fields: object) -> None:
    given = {"size": "small", "unit_price": Decimal(1), "valid": OPEN, "published_at": AT}
    Price.objects.create(price_book=book, **(given | fields))


def test_the_last_treatment_before_the_tax_point_needs_a_rate() -> None:
    acme = make_organization("acme")
    treat(acme, country="FR")
    treat(acme, country="DE", valid_from=date(2026, 12, 1))
    treat(acme, country="AT", valid_from=date(2027, 1, 1))

    assert organizations_without_rate(tax_point=TAX_POINT) == [("acme", TaxKey("DE", "S"))]
    assert organizations_without_rate(tax_point=date(2026, 11, 30)) == [("acme", TaxKey("FR", "S"))]
    assert organizations_without_rate(tax_point=date(2025, 12, 31)) == []


def test_a_withdrawn_or_later_rate_does_not_count() -> None:
    treat(make_organization("acme"))
    rate(withdrawn_at=AT)
    rate(valid_from=date(2027, 1, 1))

    assert organizations_without_rate(tax_point=TAX_POINT) == [("acme", TaxKey("DE", "S"))]
    assert organizations_without_rate(tax_point=date(2027, 1, 31)) == []


def test_a_withdrawn_treatment_and_a_closed_organization_need_no_rate() -> None:
    treat(make_organization("acme"), withdrawn_at=AT)
    treat(make_organization("former", state=LifecycleState.CLOSED))

    assert organizations_without_rate(tax_point=TAX_POINT) == []


def test_a_recipient_that_is_taxed_otherwise_needs_its_own_rate() -> None:
    acme = make_organization("acme")
    treat(acme)
    rate("DE")
    Recipient.objects.create(
        organization=acme,
        slug="paris",
        name="Acme Paris",
        tax_country="FR",
        tax_category="S",
        created_at=AT,
    )

    assert organizations_without_rate(tax_point=TAX_POINT) == [("acme", TaxKey("FR", "S"))]
    rate("FR")
    assert organizations_without_rate(tax_point=TAX_POINT) == []


def test_an_organization_has_its_own_book_or_the_default_one() -> None:
    acme, umbrella = make_organization("acme"), make_organization("umbrella")
    make_organization("former", state=LifecycleState.CLOSED)

    assert without_book(hour=HOUR) == ["acme", "umbrella"]
    assign(make_book("own"), acme)
    assert without_book(hour=HOUR) == ["umbrella"]
    assign(make_book("default"))
    assert without_book(hour=HOUR) == []
    assert OrganizationBook.objects.filter(organization=umbrella).count() == 1


def test_a_book_in_force_needs_a_price_in_force() -> None:
    acme = make_organization("acme")
    book, _ = make_book("list"), make_book("unused")
    assign(book, acme)

    assert books_without_price(hour=HOUR) == ["list"]
    price(book, valid=DateTimeTZRange(MONTH_START, HOUR))
    assert books_without_price(hour=HOUR) == ["list"]
    price(book, valid=DateTimeTZRange(HOUR, None), superseded_at=AT)
    assert books_without_price(hour=HOUR) == ["list"]
    price(book, valid=DateTimeTZRange(HOUR, None))
    assert books_without_price(hour=HOUR) == []


def test_a_discount_book_has_the_prices_of_its_base() -> None:
    base = make_book("list")
    academic = make_book("academic", base_book=base, discount_percent=Decimal(30))
    assign(academic, make_organization("acme"))

    assert books_without_price(hour=HOUR) == ["academic"]
    price(base)
    assert books_without_price(hour=HOUR) == []
