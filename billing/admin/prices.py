"""Admin pages of price books, prices and assignments; all writes go through the services."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from billing.domain.document import price_text
from billing.models import Price, PriceBook, PriceBookAssignment
from billing.services.pricing import assign_price_book, create_price_book, set_price
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.domain.hours import hours_text


class FromHourForm(ServiceForm):
    """A form of something that begins with a UTC hour."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        help_text="The start of a UTC hour; the price before it ends there.",
    )


@admin.register(PriceBook)
class PriceBookAdmin(ServiceAdmin):
    """Lists of prices."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = "A book holds the prices of one currency; organizations are billed by one at a time."
    add_fields = ("slug", "name", "currency")
    list_display = ("name", "slug", "currency", "created_at")
    list_filter = ("currency",)
    search_fields = ("name", "slug")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PriceBook:
        """Make a price book."""
        return create_price_book(**fields, actor=actor, at=at)


@admin.register(Price)
class PriceAdmin(ServiceAdmin):
    """What a unit-hour costs, from when to when."""

    form = FromHourForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = "A price is never edited: add the next one, and the one before it ends there."
    add_fields = ("price_book", "size", "price_group", "unit_price", "valid_from")
    list_display = ("price_book", "size", "price_group", "price_with_currency", "valid_hours")
    list_filter = ("price_book", "size", "price_group")
    list_select_related = ("price_book",)
    search_fields = ("price_book__name", "size", "price_group")
    autocomplete_fields = ("price_book",)

    @admin.display(description="price of a unit-hour", ordering="unit_price")
    def price_with_currency(self, price: Price) -> str:
        """Return the price as printed, in the book's currency."""
        currency = price.price_book.currency
        return f"{price_text(price.unit_price, digits=MINOR_DIGITS.get(currency, 0))} {currency}"

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, price: Price) -> str:
        """Return the hours it is for."""
        return hours_text(price.valid.lower, price.valid.upper)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Price:
        """Set a price."""
        return set_price(**fields, actor=actor, at=at)


@admin.register(PriceBookAssignment)
class PriceBookAssignmentAdmin(ServiceAdmin):
    """Assignments of organizations to price books."""

    form = FromHourForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = "A new assignment ends the one before it; charged hours keep their book."
    add_fields = ("organization", "price_book", "valid_from")
    list_display = ("organization", "price_book", "valid_hours")
    list_filter = ("price_book", "organization")
    list_select_related = ("organization", "price_book")
    search_fields = ("organization__name", "price_book__name")
    autocomplete_fields = ("organization", "price_book")

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, assignment: PriceBookAssignment) -> str:
        """Return the hours it is for."""
        return hours_text(assignment.valid.lower, assignment.valid.upper)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PriceBookAssignment:
        """Assign a price book."""
        return assign_price_book(**fields, actor=actor, at=at)
