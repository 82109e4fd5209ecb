"""Tax is computed once on the sum of the net lines, and rounded once, half up."""

from datetime import date
from decimal import Decimal

import pytest

from billing.domain.documents.taxes import (
    Corrected,
    TaxTerms,
    printed_terms,
    require_terms,
    tax_on,
    tax_on_more,
    tax_point_of,
    tax_text,
)
from billing.domain.errors import TaxInvalidError
from billing.domain.money import Money

GERMAN = TaxTerms("DE", "S", Decimal("19.0000"), "")


@pytest.mark.parametrize(
    ("net", "rate", "currency", "tax"),
    [
        ("100.00", "19", "EUR", "19.00"),
        ("0.50", "19", "EUR", "0.10"),  # 0.095
        ("0.45", "10", "EUR", "0.05"),  # 0.045
        ("-0.45", "10", "EUR", "-0.05"),
        ("105", "10", "JPY", "11"),  # 10.5
        ("1.235", "5.5", "KWD", "0.068"),  # 0.067925
        ("100.00", "0", "EUR", "0.00"),
    ],
)
def test_a_tax_is_rounded_once_half_up_to_the_currency(
    net: str, rate: str, currency: str, tax: str
) -> None:
    assert str(tax_on(Money(Decimal(net), currency), Decimal(rate)).amount) == tax


@pytest.mark.parametrize(
    ("nets", "taxes"),
    [
        (["-0.50", "-0.50", "-2.00"], ["-0.10", "-0.09", "-0.38"]),
        (["-1.00", "-1.00", "-1.00"], ["-0.19", "-0.19", "-0.19"]),
        (["-0.02", "-0.02", "-2.96"], ["0.00", "-0.01", "-0.56"]),
        (["-0.50", "0.50", "-3.00"], ["-0.10", "0.10", "-0.57"]),
    ],
)
def test_corrections_of_a_whole_invoice_add_up_to_its_tax(
    nets: list[str], taxes: list[str]
) -> None:
    before = Corrected(Money.zero("EUR"), Money.zero("EUR"))
    made = []
    for net in (Money(Decimal(text), "EUR") for text in nets):
        tax = tax_on_more(net, Decimal(19), before=before)
        before = Corrected(before.net + net, before.tax + tax)
        made.append(f"{tax.amount}")

    assert made == taxes
    assert -before.tax == tax_on(-before.net, Decimal(19)) == Money(Decimal("0.57"), "EUR")


def test_the_tax_point_is_the_last_day_of_the_month() -> None:
    labels = ("2027-02", "2028-02", "2026-10", "2026-11")

    assert [tax_point_of(label) for label in labels] == [
        date(2027, 2, 28),
        date(2028, 2, 29),
        date(2026, 10, 31),
        date(2026, 11, 30),
    ]


def test_a_document_shows_rate_taxable_amount_tax_and_what_is_payable() -> None:
    shown = tax_text(Money(Decimal("99.99"), "EUR"), GERMAN, tax_point="2026-10-31")

    assert shown == {
        "tax_point": "2026-10-31",
        "taxes": [
            {
                "category": "S",
                "country": "DE",
                "rate": "19",
                "taxable_amount": "99.99",
                "amount": "19.00",
                "exemption_text": "",
            }
        ],
        "tax_total": "19.00",
        "payable": "118.99",
    }
    assert printed_terms(shown) == GERMAN
    assert tax_text(Money.zero("EUR"), None, tax_point="2026-10-31") == {}


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        (TaxTerms("Germany", "S", Decimal(19), ""), "country"),
        (TaxTerms("de", "S", Decimal(19), ""), "country"),
        (TaxTerms("DE", "X", Decimal(19), ""), "category"),
        (TaxTerms("DE", "S", Decimal(0), ""), "rate"),
        (TaxTerms("DE", "S", Decimal(101), ""), "rate"),
        (TaxTerms("DE", "S", Decimal(-1), ""), "rate"),
        (TaxTerms("DE", "S", Decimal("NaN"), ""), "rate"),
        (TaxTerms("DE", "S", Decimal("19.00001"), ""), "rate"),
        (TaxTerms("DE", "Z", Decimal(7), ""), "rate"),
        (TaxTerms("DE", "AE", Decimal(0), " "), "exemption_text"),
        (TaxTerms("DE", "O", Decimal(0), ""), "exemption_text"),
        (TaxTerms("DE", "E", Decimal(0), "x" * 501), "exemption_text"),
        (TaxTerms("DE", "S", Decimal(19), "Free."), "exemption_text"),
    ],
)
def test_a_rate_that_no_document_may_show_is_refused(terms: TaxTerms, field: str) -> None:
    with pytest.raises(TaxInvalidError) as refused:
        require_terms(terms)

    assert (refused.value.code, refused.value.field) == ("tax_invalid", field)
