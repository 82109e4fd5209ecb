"""Amounts and quantities as pages of the admin write them, in the language of the page."""

from decimal import Decimal

from billing.domain.documents import document_text
from tenants.templatetags.texts import figure


def money_text(amount: Decimal, currency: str) -> str:
    """Return an amount as displayed, such as "1,234.50 EUR"."""
    return figure(document_text.money_text(amount, currency))


def number_text(text: str) -> str:
    """Return an exact number with its own digits and its thousands apart."""
    return figure(document_text.number_text(text))


def hours_text(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with four digits."""
    return figure(document_text.hours_text(unit_seconds))
