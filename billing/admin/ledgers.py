"""Admin pages of what is only looked at: charges, accrued windows, unpriced use, number series."""

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from unfold.decorators import action

from billing.admin.waste import waste_page
from billing.domain.document import price_text
from billing.domain.document_words import hours_words, number_words
from billing.domain.money import MINOR_DIGITS
from billing.models import (
    AccrualException,
    AccruedCorrection,
    AccruedWindow,
    Charge,
    InvoiceSeries,
)
from tenants.admin.base import LedgerAdmin


@admin.register(Charge)
class ChargeAdmin(LedgerAdmin):
    """Sealed use with its price pinned."""

    view_capability = "billing:charge:read"
    hint = "Charges come from sealed windows; the database refuses to change or delete one."
    list_display = (
        "window_start",
        "organization",
        "project",
        "owner",
        "size",
        "price_group",
        "unit_hours",
        "price_with_currency",
        "is_correction",
        "is_billed",
    )
    list_filter = (
        "organization",
        "size",
        "period__label",
        ("correction_id", admin.EmptyFieldListFilter),
        ("line", admin.EmptyFieldListFilter),
    )
    list_select_related = ("organization", "project")
    search_fields = ("owner", "project__slug", "price_group")
    date_hierarchy = "window_start"
    actions_list = ("waste",)

    @action(description="Waste", url_path="waste", permissions=["view"], icon="savings")
    def waste(self, request: HttpRequest) -> TemplateResponse:
        """Show what is held and not used, by what it would save."""
        return waste_page(request, context=self.page_context(request, title="Waste"))

    @admin.display(description="unit-hours")
    def unit_hours(self, charge: Charge) -> str:
        """Return the quantity as printed."""
        return hours_words(charge.unit_seconds)

    @admin.display(description="price")
    def price_with_currency(self, charge: Charge) -> str:
        """Return the pinned price."""
        digits = MINOR_DIGITS.get(charge.currency, 0)
        price = price_text(charge.unit_price, digits=digits)
        return f"{number_words(price)} {charge.currency}"

    @admin.display(description="correction", boolean=True)
    def is_correction(self, charge: Charge) -> bool:
        """Whether it charges a correction of the hour."""
        return charge.correction_id is not None

    @admin.display(description="billed", boolean=True)
    def is_billed(self, charge: Charge) -> bool:
        """Whether it is on a final invoice."""
        return charge.line_id is not None


@admin.register(AccrualException)
class AccrualExceptionAdmin(LedgerAdmin):
    """Sealed use that has no price."""

    view_capability = "billing:charge:read"
    hint = "Nothing here is billed, and its invoice waits. Follow the remedy; the rest follows."
    list_display = (
        "window_start",
        "organization",
        "project",
        "size",
        "price_group",
        "unit_hours",
        "summary",
        "remedy",
        "resolved_at",
    )
    list_filter = (("resolved_at", admin.EmptyFieldListFilter), "code", "organization", "size")
    list_select_related = ("organization", "project")
    search_fields = ("project__slug", "price_group", "summary")

    @admin.display(description="unit-hours")
    def unit_hours(self, exception: AccrualException) -> str:
        """Return the quantity as printed."""
        return hours_words(exception.unit_seconds)


@admin.register(AccruedWindow)
class AccruedWindowAdmin(LedgerAdmin):
    """Which sealed windows are charged."""

    view_capability = "metering:window:read"
    hint = "A window is complete when every unit-second of it is charged."
    list_display = (
        "window_start",
        "cluster",
        "usage_unit_seconds",
        "charged_unit_seconds",
        "is_complete",
        "accrued_at",
    )
    list_filter = ("is_complete", "cluster")
    list_select_related = ("cluster",)
    date_hierarchy = "window_start"


@admin.register(AccruedCorrection)
class AccruedCorrectionAdmin(LedgerAdmin):
    """Which posted usage corrections are charged."""

    view_capability = "billing:charge:read"
    hint = "A correction is charged at the price of its own hour, into a month that is open."
    list_display = (
        "window_start",
        "organization",
        "usage_unit_seconds",
        "charged_unit_seconds",
        "is_complete",
        "accrued_at",
    )
    list_filter = ("is_complete", "organization")
    list_select_related = ("organization",)
    date_hierarchy = "window_start"


@admin.register(InvoiceSeries)
class InvoiceSeriesAdmin(LedgerAdmin):
    """The counters behind gapless numbers."""

    view_capability = "billing:period:read"
    hint = "The next number is taken by the last step of a finalization."
    list_display = ("code", "next_number")
