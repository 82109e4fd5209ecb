"""Tables of billing and their constraints."""

from billing.models.charge import AccrualException, AccruedWindow, Charge
from billing.models.invoice import Invoice, InvoiceLine, InvoiceSeries, InvoiceState
from billing.models.period import BillingPeriod, PeriodState
from billing.models.price import Price, PriceBook, PriceBookAssignment

__all__ = [
    "AccrualException",
    "AccruedWindow",
    "BillingPeriod",
    "Charge",
    "Invoice",
    "InvoiceLine",
    "InvoiceSeries",
    "InvoiceState",
    "PeriodState",
    "Price",
    "PriceBook",
    "PriceBookAssignment",
]
