"""The REST routes of billing under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from billing.api.charges import (
    AccrualExceptionViewSet,
    ChargeViewSet,
    WasteSavingViewSet,
)
from billing.api.costs import CostViewSet
from billing.api.disputes import DisputeViewSet
from billing.api.exports import ExportViewSet
from billing.api.invoice_lines import InvoiceLineViewSet, InvoicePartViewSet
from billing.api.invoices import InvoiceViewSet
from billing.api.ledger.batches import JournalBatchViewSet
from billing.api.ledger.deliveries import DocumentDeliveryViewSet
from billing.api.ledger.journal import AccountingMonthViewSet, JournalEntryViewSet
from billing.api.ledger.opening_balances import OpeningBalanceViewSet
from billing.api.ledger.payments import PaymentViewSet
from billing.api.ledger.reminders import ReminderStopViewSet, ReminderViewSet
from billing.api.ledger.reports import AgeingViewSet, StatementViewSet
from billing.api.ledger.write_offs import WriteOffViewSet
from billing.api.periods import BillingPeriodViewSet
from billing.api.pricing.customer_classes import (
    ClassMembershipViewSet,
    CustomerClassViewSet,
)
from billing.api.pricing.minimums import MinimumChargeViewSet
from billing.api.pricing.price_books import (
    PriceBookAssignmentViewSet,
    PriceBookViewSet,
    PriceViewSet,
)
from billing.api.pricing.price_calendars import PriceCalendarViewSet
from billing.api.pricing.price_drafts import PriceDraftViewSet
from billing.api.pricing.repricings import RepricingViewSet
from billing.api.pricing.tiers import TierScheduleViewSet
from billing.api.pricing.which_price import WhichPriceViewSet
from billing.api.routing import IssuerViewSet, ProjectRouteViewSet, RecipientViewSet
from billing.api.scheduled_exports import (
    ExportRunViewSet,
    ExportScheduleViewSet,
    export_file_urls,
)
from billing.api.taxes import TaxRateViewSet, TaxTreatmentViewSet
from billing.api.usage_summary import UsageSummaryViewSet

router = SimpleRouter(use_regex_path=False)
router.register("price-books", PriceBookViewSet, basename="price-book")
router.register("prices", PriceViewSet, basename="price")
router.register(
    "price-book-assignments", PriceBookAssignmentViewSet, basename="price-book-assignment"
)
router.register("customer-classes", CustomerClassViewSet, basename="customer-class")
router.register(
    "customer-class-memberships", ClassMembershipViewSet, basename="customer-class-membership"
)
router.register("billing-periods", BillingPeriodViewSet, basename="billing-period")
router.register("usage-summary", UsageSummaryViewSet, basename="usage-summary")
router.register("charges", ChargeViewSet, basename="charge")
router.register("accrual-exceptions", AccrualExceptionViewSet, basename="accrual-exception")
router.register("invoices", InvoiceViewSet, basename="invoice")
router.register("invoice-lines", InvoiceLineViewSet, basename="invoice-line")
router.register("invoice-parts", InvoicePartViewSet, basename="invoice-part")
router.register("opening-balances", OpeningBalanceViewSet, basename="opening-balance")
router.register("disputes", DisputeViewSet, basename="dispute")
router.register("payments", PaymentViewSet, basename="payment")
router.register("write-offs", WriteOffViewSet, basename="write-off")
router.register("document-deliveries", DocumentDeliveryViewSet, basename="document-delivery")
router.register("reminders", ReminderViewSet, basename="reminder")
router.register("reminder-stops", ReminderStopViewSet, basename="reminder-stop")
router.register("journal-entries", JournalEntryViewSet, basename="journal-entry")
router.register("journal-batches", JournalBatchViewSet, basename="journal-batch")
router.register("accounting-months", AccountingMonthViewSet, basename="accounting-month")
router.register("price-drafts", PriceDraftViewSet, basename="price-draft")
router.register("repricings", RepricingViewSet, basename="repricing")
router.register("tax-rates", TaxRateViewSet, basename="tax-rate")
router.register("tax-treatments", TaxTreatmentViewSet, basename="tax-treatment")
router.register("issuers", IssuerViewSet, basename="issuer")
router.register("recipients", RecipientViewSet, basename="recipient")
router.register("project-routes", ProjectRouteViewSet, basename="project-route")
router.register("tier-schedules", TierScheduleViewSet, basename="tier-schedule")
router.register("price-calendars", PriceCalendarViewSet, basename="price-calendar")
router.register("minimum-charges", MinimumChargeViewSet, basename="minimum-charge")
router.register("export-schedules", ExportScheduleViewSet, basename="export-schedule")
router.register("export-runs", ExportRunViewSet, basename="export-run")
router.register("waste-savings", WasteSavingViewSet, basename="waste-saving")

urlpatterns = [
    *router.urls,
    *export_file_urls,
    path("invoices/<uuid:pk>/lines/", InvoiceLineViewSet.as_view({"get": "of_invoice"})),
    path("costs/", CostViewSet.as_view({"get": "report"})),
    path("costs/csv/", CostViewSet.as_view({"get": "csv"})),
    path("costs/xlsx/", CostViewSet.as_view({"get": "xlsx"})),
    path("exports/focus/", ExportViewSet.as_view({"get": "focus"})),
    path("exports/month/", ExportViewSet.as_view({"get": "month"})),
    path("reports/ageing/", AgeingViewSet.as_view({"get": "report"})),
    path("reports/ageing/csv/", AgeingViewSet.as_view({"get": "csv"})),
    path("reports/statement/", StatementViewSet.as_view({"get": "report"})),
    path("reports/statement/csv/", StatementViewSet.as_view({"get": "csv"})),
    path("reports/statement/pdf/", StatementViewSet.as_view({"get": "pdf"})),
    path("which-price/", WhichPriceViewSet.as_view({"get": "ask"})),
]
