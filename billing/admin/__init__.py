"""The admin pages of billing: prices, read-only ledgers, and invoices with their actions."""

from billing.admin import invoices, ledgers, periods, prices

__all__ = ["invoices", "ledgers", "periods", "prices"]
