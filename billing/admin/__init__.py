"""The admin pages of billing: prices, read-only ledgers, and invoices with their actions."""

from billing.admin import (
    charges,
    costs,
    disputes,
    invoices,
    periods,
    routing,
    taxes,
)
from billing.admin.exports import scheduled
from billing.admin.ledger import (
    deliveries,
    journal,
    opening_balances,
    payments,
    reminders,
    write_offs,
)
from billing.admin.pricing import (
    customer_classes,
    minimums,
    price_calendars,
    price_drafts,
    prices,
    repricings,
    tiers,
)

__all__ = [
    "charges",
    "costs",
    "customer_classes",
    "deliveries",
    "disputes",
    "invoices",
    "journal",
    "minimums",
    "opening_balances",
    "payments",
    "periods",
    "price_calendars",
    "price_drafts",
    "prices",
    "reminders",
    "repricings",
    "routing",
    "scheduled",
    "taxes",
    "tiers",
    "write_offs",
]
