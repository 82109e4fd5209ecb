"""Tables of billing and their constraints."""

from billing.domain.documents.invoicing import InvoiceState
from billing.models.charge import (
    AccrualException,
    AccruedCorrection,
    AccruedUsage,
    AccruedWindow,
    ChangedHour,
    Charge,
    CostView,
    DailyCost,
)
from billing.models.customer_class import CustomerClass, CustomerClassMembership
from billing.models.dispute import Dispute, DisputedLine, DisputeMessage
from billing.models.export import ExportChunk, ExportFile, ExportRun, ExportSchedule
from billing.models.invoice import DocumentFile, Invoice, InvoiceLine, InvoiceSeries
from billing.models.ledger import (
    AccountingMonth,
    AccountKind,
    BatchedEntry,
    JournalBatch,
    JournalEntry,
    LedgerAccount,
    Posting,
)
from billing.models.minimum import MinimumCharge
from billing.models.payment import (
    DeliveryChannel,
    DocumentDelivery,
    DueDate,
    OpeningBalance,
    Payment,
    PaymentAllocation,
    PaymentKind,
    Reminder,
    ReminderStop,
)
from billing.models.period import BillingPeriod, PeriodState
from billing.models.price import (
    BookPrice,
    OrganizationBook,
    Price,
    PriceBook,
    PriceBookAssignment,
    PriceCalendar,
)
from billing.models.price_change import PriceDraft, PriceDraftState, Repricing, RepricingState
from billing.models.routing import Issuer, ProjectRoute, Recipient, RunRoute
from billing.models.tax import TaxRate, TaxTreatment
from billing.models.tier import TierSchedule
from billing.models.write_off import WriteOff

__all__ = [
    "AccountKind",
    "AccountingMonth",
    "AccrualException",
    "AccruedCorrection",
    "AccruedUsage",
    "AccruedWindow",
    "BatchedEntry",
    "BillingPeriod",
    "BookPrice",
    "ChangedHour",
    "Charge",
    "CostView",
    "CustomerClass",
    "CustomerClassMembership",
    "DailyCost",
    "DeliveryChannel",
    "Dispute",
    "DisputeMessage",
    "DisputedLine",
    "DocumentDelivery",
    "DocumentFile",
    "DueDate",
    "ExportChunk",
    "ExportFile",
    "ExportRun",
    "ExportSchedule",
    "Invoice",
    "InvoiceLine",
    "InvoiceSeries",
    "InvoiceState",
    "Issuer",
    "JournalBatch",
    "JournalEntry",
    "LedgerAccount",
    "MinimumCharge",
    "OpeningBalance",
    "OrganizationBook",
    "Payment",
    "PaymentAllocation",
    "PaymentKind",
    "PeriodState",
    "Posting",
    "Price",
    "PriceBook",
    "PriceBookAssignment",
    "PriceCalendar",
    "PriceDraft",
    "PriceDraftState",
    "ProjectRoute",
    "Recipient",
    "Reminder",
    "ReminderStop",
    "Repricing",
    "RepricingState",
    "RunRoute",
    "TaxRate",
    "TaxTreatment",
    "TierSchedule",
    "WriteOff",
]
