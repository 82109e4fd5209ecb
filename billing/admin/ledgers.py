"""Admin pages of what is only looked at: charges, accrued windows, unpriced use, number series."""

from django.contrib import admin

from billing.domain.document import price_text, unit_hours_text
from billing.domain.money import MINOR_DIGITS
from billing.models import AccrualException, AccruedWindow, Charge, InvoiceSeries
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
        "is_billed",
    )
    list_filter = ("organization", "size", "period__label", ("line", admin.EmptyFieldListFilter))
    list_select_related = ("organization", "project")
    search_fields = ("owner", "project__slug", "price_group")
    date_hierarchy = "window_start"

    @admin.display(description="unit-hours")
    def unit_hours(self, charge: Charge) -> str:
        """Return the quantity as printed."""
        return unit_hours_text(charge.unit_seconds)

    @admin.display(description="price")
    def price_with_currency(self, charge: Charge) -> str:
        """Return the pinned price."""
        digits = MINOR_DIGITS.get(charge.currency, 0)
        return f"{price_text(charge.unit_price, digits=digits)} {charge.currency}"

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
        return unit_hours_text(exception.unit_seconds)


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


@admin.register(InvoiceSeries)
class InvoiceSeriesAdmin(LedgerAdmin):
    """The counters behind gapless numbers."""

    view_capability = "billing:period:read"
    hint = "The next number is taken by the last step of a finalization."
    list_display = ("code", "next_number")
