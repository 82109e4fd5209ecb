"""The admin pages of billing: prices through services, ledgers to look at, invoices to walk."""

from billing.admin import invoices, ledgers, periods, prices

__all__ = ["invoices", "ledgers", "periods", "prices"]
