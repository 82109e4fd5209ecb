"""The admin pages of billing: prices, read-only ledgers, and invoices with their actions."""

from billing.admin import (
    invoices,
    ledgers,
    payments,
    periods,
    price_drafts,
    prices,
    repricings,
    taxes,
    tiers,
)

__all__ = [
    "invoices",
    "ledgers",
    "payments",
    "periods",
    "price_drafts",
    "prices",
    "repricings",
    "taxes",
    "tiers",
]
