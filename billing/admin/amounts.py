"""Amounts and quantities as pages of the admin write them, in the language of the page."""

from decimal import Decimal

from django.utils.translation import gettext

from billing.domain.documents import document_text
from billing.domain.money import Money
from tenants.templatetags.texts import figure


def money_text(amount: Decimal, currency: str) -> str:
    """Return an amount as displayed, such as "1,234.50 EUR"."""
    return figure(document_text.money_text(amount, currency))


def saving_text(saving: Money | None, product: Decimal | None) -> str:
    """Return a saving, or "" for none; more than nothing may be less than the smallest amount.

    Args:
        saving: The rounded amount; None where there is no price.
        product: What it was rounded from.
    """
    if saving is None:
        return ""
    if saving.minor_units:
        return money_text(saving.amount, saving.currency)
    if product is None or product <= 0:
        return gettext("nothing")
    least = Money.of_minor_units(1, saving.currency)
    return gettext("less than {amount}").format(amount=money_text(least.amount, least.currency))


def number_text(text: str) -> str:
    """Return an exact number with its own digits and its thousands apart."""
    return figure(document_text.number_text(text))


def hours_text(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with four digits."""
    return figure(document_text.hours_text(unit_seconds))
