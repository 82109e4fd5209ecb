"""Admin pages of customer classes and of the organizations in them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from billing.admin.pricing.prices import FromHourForm, key_of_replaced
from billing.models import CustomerClass, CustomerClassMembership
from billing.services.pricing.customer_classes import create_customer_class, set_customer_class
from billing.services.pricing.price_history import withdraw_membership
from tenants.admin.base import ServiceAdmin
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.templatetags.texts import hours_text


@admin.register(CustomerClass)
class CustomerClassAdmin(ServiceAdmin):
    """Kinds of customers."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "Organizations of a class are billed by the price book assigned to it, unless they have "
        "one of their own."
    )
    add_fields = ("slug", "name")
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> CustomerClass:
        """Make a customer class."""
        return create_customer_class(**fields, actor=actor, at=at)


@admin.register(CustomerClassMembership)
class CustomerClassMembershipAdmin(ServiceAdmin):
    """Which organization is in which class, from when to when."""

    form = FromHourForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "A new membership ends the one before it, or replaces it with a reason; without a class "
        "the organization is in none from then on. What is not in force yet can be withdrawn."
    )
    action_form = NoteActionForm
    actions = ("withdraw_memberships",)
    add_fields = ("organization", "customer_class", "valid_from", "replaces", "reason")
    list_display = ("organization", "customer_class", "valid_hours", "superseded_at")
    list_filter = (("superseded_at", MarkFilter), "customer_class", "organization")
    list_select_related = ("organization", "customer_class")
    search_fields = ("organization__name", "customer_class__name")
    autocomplete_fields = ("organization", "customer_class", "replaces")

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, membership: CustomerClassMembership) -> str:
        """Return the hours it is for."""
        return hours_text(membership.valid.lower, membership.valid.upper)

    def add(
        self, fields: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> CustomerClassMembership:
        """Put an organization into a class."""
        return set_customer_class(**key_of_replaced(fields), actor=actor, at=at)

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_memberships(
        self, request: HttpRequest, rows: QuerySet[CustomerClassMembership]
    ) -> None:
        """Withdraw the chosen memberships, which are not in force yet."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_membership(
                membership_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )
