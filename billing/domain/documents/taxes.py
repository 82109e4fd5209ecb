"""Taxes of documents: computed once for each category and rate on the sum of net lines.

The categories are those of UNCL 5305 that EN 16931 uses. The amount is rounded once, half up, as
its rules BR-S-9, BR-Z-9, BR-E-9, BR-AE-9 and BR-O-9 want it.
"""

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from billing.domain.errors import TaxInvalidError
from billing.domain.money import Money, round_money
from billing.domain.period import Month

RATE_MAX: Final = Decimal(100)
RATE_DECIMALS: Final = 4
EXEMPTION_LENGTH_MAX: Final = 500
_COUNTRY: Final = re.compile(r"[A-Z]{2}")


class TaxCategory(StrEnum):
    """Which rule of taxation applies to an organization."""

    STANDARD = "S"
    ZERO_RATED = "Z"
    EXEMPT = "E"
    REVERSE_CHARGE = "AE"
    OUTSIDE_SCOPE = "O"


EXPLAINED: Final = frozenset(
    {TaxCategory.EXEMPT, TaxCategory.REVERSE_CHARGE, TaxCategory.OUTSIDE_SCOPE}
)
"""Categories whose documents say why there is no tax."""


@dataclass(frozen=True)
class TaxKey:
    """How a customer is taxed: what rates are listed by.

    Attributes:
        country: ISO 3166-1 alpha-2.
    """

    country: str
    category: str


@dataclass(frozen=True)
class TaxTerms:
    """What taxes a document.

    Attributes:
        country: ISO 3166-1 alpha-2.
        rate: Percent.
        exemption_text: Why there is no tax; "" where there is one.
    """

    country: str
    category: str
    rate: Decimal
    exemption_text: str


def require_country(country: str) -> None:
    """Refuse what is no code of a country.

    Raises:
        TaxInvalidError: It is not two capital letters.
    """
    if not _COUNTRY.fullmatch(country):
        raise TaxInvalidError(
            "The country is not two capital letters.", field="country", facts={"country": country}
        )


def require_category(category: str) -> TaxCategory:
    """Return a category.

    Raises:
        TaxInvalidError: It is not one of S, Z, E, AE and O.
    """
    try:
        return TaxCategory(category)
    except ValueError:
        raise TaxInvalidError(
            "The tax category is not known.", field="category", facts={"category": category}
        ) from None


def require_terms(terms: TaxTerms) -> None:
    """Refuse a tax rate that no document may show.

    Raises:
        TaxInvalidError: Country, category, rate or exemption text is wrong.
    """
    require_country(terms.country)
    category = require_category(terms.category)
    if not terms.rate.is_finite() or round(terms.rate, RATE_DECIMALS) != terms.rate:
        raise TaxInvalidError("The rate has more than 4 digits after the point.", field="rate")
    if category is TaxCategory.STANDARD and not 0 < terms.rate <= RATE_MAX:
        raise TaxInvalidError("A standard rate is above 0 and at most 100 percent.", field="rate")
    if category is not TaxCategory.STANDARD and terms.rate != 0:
        raise TaxInvalidError("Only category S has a rate above 0.", field="rate")
    if (category in EXPLAINED) != bool(terms.exemption_text.strip()):
        raise TaxInvalidError(
            "Categories E, AE and O have an exemption text, and the others have none.",
            field="exemption_text",
        )
    if len(terms.exemption_text) > EXEMPTION_LENGTH_MAX:
        raise TaxInvalidError("The exemption text is too long.", field="exemption_text")


def tax_point_of(label: str) -> date:
    """Return the tax point of a month such as "2026-10": its last day, in the payer's zone."""
    month = Month.parse(label)
    return date(month.year, month.month, calendar.monthrange(month.year, month.month)[1])


def tax_on(net: Money, rate: Decimal) -> Money:
    """Return a percentage of a sum, rounded once, half up."""
    return round_money(net.amount * rate / RATE_MAX, net.currency)


@dataclass(frozen=True)
class Corrected:
    """Net and tax of the final documents that correct an invoice; below zero when given back."""

    net: Money
    tax: Money


def tax_on_more(net: Money, rate: Decimal, *, before: Corrected) -> Money:
    """Return the tax of a further correction: that of all of them, less what was printed before.

    So corrections that add up to the net of an invoice add up to its tax (ADR 0067).
    """
    return tax_on(before.net + net, rate) + -before.tax


def tax_text(
    net: Money, terms: TaxTerms | None, *, tax_point: str, before: Corrected | None = None
) -> dict[str, Any]:
    """Return what a document shows of its taxes: nothing without terms.

    Args:
        net: Sum of its lines.
        terms: Country, category and rate; None for a customer without a tax treatment.
        tax_point: The day of the rate, such as "2026-10-31".
        before: What corrected the same invoice before it; None for a document that corrects none.
    """
    if terms is None:
        return {}
    tax = tax_on(net, terms.rate) if before is None else tax_on_more(net, terms.rate, before=before)
    return {
        "tax_point": tax_point,
        "taxes": [
            {
                "category": terms.category,
                "country": terms.country,
                "rate": f"{terms.rate.normalize():f}",
                "taxable_amount": f"{net.amount:f}",
                "amount": f"{tax.amount:f}",
                "exemption_text": terms.exemption_text,
                **(_corrected_text(before) if before is not None and before.net.amount else {}),
            }
        ],
        "tax_total": f"{tax.amount:f}",
        "payable": f"{(net + tax).amount:f}",
    }


def _corrected_text(before: Corrected) -> dict[str, str]:
    """Return what shows how the tax was rounded: together with what was corrected before."""
    return {
        "corrected_taxable_amount": f"{before.net.amount:f}",
        "corrected_amount": f"{before.tax.amount:f}",
    }


def printed_terms(document: Mapping[str, Any]) -> TaxTerms | None:
    """Return what taxed a document; None for one without taxes."""
    for tax in document.get("taxes", ()):
        return TaxTerms(
            country=tax["country"],
            category=tax["category"],
            rate=Decimal(tax["rate"]),
            exemption_text=tax["exemption_text"],
        )
    return None
