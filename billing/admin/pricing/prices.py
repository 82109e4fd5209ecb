"""Admin pages of price books, prices and assignments; all writes go through the services."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop
from unfold.widgets import UnfoldAdminSplitDateTimeWidget, UnfoldAdminTextInputWidget

from billing.domain.documents.document import price_text
from billing.models import Price, PriceBook, PriceBookAssignment
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.price_history import withdraw_assignment, withdraw_price
from billing.services.pricing.prices import create_price_book, set_price
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NOTE_LENGTH_MAX, NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.templatetags.texts import figure, hours_text


class FromHourForm(ServiceForm):
    """A form of something that begins with a UTC hour."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        help_text="The start of a UTC hour; what was in force before ends there.",
    )
    reason = forms.CharField(
        required=False,
        max_length=NOTE_LENGTH_MAX,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Needed to replace one, or for hours that are charged already.",
    )


class AssignmentForm(FromHourForm):
    """An assignment of an organization, of a customer class or of all."""

    is_default = forms.BooleanField(
        required=False,
        label="default for all",
        help_text="Instead of an organization or class: for all without another book.",
    )


@admin.register(PriceBook)
class PriceBookAdmin(ServiceAdmin):
    """Lists of prices."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "A book holds the prices of one currency; organizations are billed by one at a time. One "
        "with a base book costs the prices of that less the discount, where it has none of its own."
    )
    add_fields = ("slug", "name", "currency", "base_book", "discount_percent")
    autocomplete_fields = ("base_book",)
    list_display = ("name", "slug", "currency", "base_book", "discount_percent", "created_at")
    list_select_related = ("base_book",)
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
    hint = (
        "A price is never edited: add the next one, and the one before it ends there. A wrong one "
        "is replaced: add it and name the price it replaces; what is not in force yet can be "
        "withdrawn. One for a cluster goes before one for any cluster of the same group, and one "
        "for a time-of-use band before one for any time."
    )
    action_form = NoteActionForm
    actions = ("withdraw_prices",)
    add_fields = (
        "price_book",
        "size",
        "price_group",
        "cluster",
        "band",
        "unit_price",
        "valid_from",
        "replaces",
        "reason",
    )
    help_texts: ClassVar = {
        "price_group": "* for any device, or such as H100/*, H100/whole, A100/1of4, */burst.",
        "cluster": "Empty: a price on any cluster.",
        "band": "As in the book's price calendar, such as night. Empty: a price for any time.",
        "unit_price": "Of one unit for an hour, in the currency of the book.",
        "replaces": "A wrong price of the same book, size, group, cluster and band.",
    }
    list_display = (
        "price_book",
        "size",
        "price_group",
        "cluster",
        "band",
        "price_with_currency",
        "valid_hours",
        "superseded_at",
    )
    list_filter = (
        ("superseded_at", MarkFilter),
        "price_book",
        "size",
        "price_group",
        "cluster",
        "band",
    )
    list_select_related = ("price_book", "cluster")
    search_fields = ("price_book__name", "size", "price_group", "cluster__slug")
    autocomplete_fields = ("price_book", "cluster", "replaces")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Price]:
        """Return prices with their books, which stand before them among choices."""
        rows: QuerySet[Price] = super().get_queryset(request)
        return rows.select_related("price_book")

    @admin.display(description="price of a unit-hour", ordering="unit_price")
    def price_with_currency(self, price: Price) -> str:
        """Return the price as printed, in the book's currency."""
        currency = price.price_book.currency
        shown = price_text(price.unit_price, digits=MINOR_DIGITS.get(currency, 0))
        return f"{figure(shown)} {currency}"

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, price: Price) -> str:
        """Return the hours it is for."""
        return hours_text(price.valid.lower, price.valid.upper)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Price:
        """Set a price."""
        return set_price(**key_of_replaced(fields), actor=actor, at=at)

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_prices(self, request: HttpRequest, rows: QuerySet[Price]) -> None:
        """Withdraw the chosen prices, which are not in force yet."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_price(
                price_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )


@admin.register(PriceBookAssignment)
class PriceBookAssignmentAdmin(ServiceAdmin):
    """Assignments of organizations to price books."""

    form = AssignmentForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "An organization's own book goes before that of its customer class, and that before the "
        "default book. A new assignment ends the one before it, or replaces it with a reason; "
        "without a book, the next one applies from then on. What is not in force yet can be "
        "withdrawn."
    )
    action_form = NoteActionForm
    actions = ("withdraw_assignments",)
    add_fields = (
        "organization",
        "customer_class",
        "is_default",
        "price_book",
        "valid_from",
        "replaces",
        "reason",
    )
    list_display = ("owner_name", "price_book", "valid_hours", "superseded_at")
    list_filter = (
        ("superseded_at", MarkFilter),
        "price_book",
        "customer_class",
        "organization",
    )
    list_select_related = ("organization", "customer_class", "price_book")
    search_fields = ("organization__name", "customer_class__name", "price_book__name")
    autocomplete_fields = ("organization", "customer_class", "price_book", "replaces")

    @admin.display(description="of", ordering="organization")
    def owner_name(self, assignment: PriceBookAssignment) -> str:
        """Return the organization, the class, or that it is of all."""
        return assignment.owner

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, assignment: PriceBookAssignment) -> str:
        """Return the hours it is for."""
        return hours_text(assignment.valid.lower, assignment.valid.upper)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PriceBookAssignment:
        """Assign a price book."""
        return assign_price_book(**key_of_replaced(fields), actor=actor, at=at)

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_assignments(
        self, request: HttpRequest, rows: QuerySet[PriceBookAssignment]
    ) -> None:
        """Withdraw the chosen assignments, which are not in force yet."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_assignment(
                assignment_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )


def key_of_replaced(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form with the key of what is replaced."""
    replaced = fields["replaces"]
    return {**fields, "replaces": None if replaced is None else replaced.pk}
