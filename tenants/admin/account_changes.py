"""Admin page of changes to accounts that take a second person; what is open comes first."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tenants.adapters.account_mail import is_mail_set_up
from tenants.admin.base import ServiceAdmin
from tenants.admin.links import send_address_link
from tenants.domain.account_changes import ChangeKind
from tenants.domain.actors import Actor
from tenants.models import AccountChange
from tenants.services import account_changes


@admin.register(AccountChange)
class AccountChangeAdmin(ServiceAdmin):
    """What waits: roles of the platform, access to the admin, first tokens, addresses, names."""

    view_capability = "tenants:membership:read"
    write_capability = "tenants:membership:read"
    hint = (
        "Asked for by one person, approved by another: neither who asked nor who would be raised. "
        "A new address is confirmed by a link to the old one as well. Value: the role, the address "
        "or the user name; empty otherwise. A role, staff status, another address and activation "
        "end the person's password, sessions and tokens; a link goes to the person's address."
    )
    add_fields = ("kind", "subject", "value")
    list_display = (
        "username",
        "email",
        "kind",
        "value",
        "state",
        "asked_by",
        "asked_at",
        "expires_at",
        "decided_by",
        "decided_at",
    )
    list_filter = ("state", "kind")
    list_select_related = ("subject", "asked_by", "decided_by")
    search_fields = ("subject__username",)
    autocomplete_fields = ("subject",)
    actions = ("approve_changes", "decline_changes")

    def get_ordering(self, request: HttpRequest) -> list[str]:  # noqa: ARG002 - Django's signature.
        """Return the order of the list: open ones first, then by when they were asked for."""
        return ["decided_at", "-asked_at"]

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> AccountChange:
        """Ask for a change."""
        change = account_changes.ask_change(
            kind=ChangeKind(fields["kind"]),
            subject=fields["subject"],
            value=fields["value"],
            is_mail_set_up=is_mail_set_up(),
            actor=actor,
            at=at,
        )
        send_address_link(change)
        return change

    @admin.action(description="Approve", permissions=["write"])
    def approve_changes(self, request: HttpRequest, rows: QuerySet[AccountChange]) -> None:
        """Approve the chosen changes."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: account_changes.approve_change(
                change_id=row.pk, actor=actor, at=at
            ),
            done="is approved",
        )

    @admin.action(description="Decline", permissions=["write"])
    def decline_changes(self, request: HttpRequest, rows: QuerySet[AccountChange]) -> None:
        """Decline the chosen changes."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: account_changes.decline_change(
                change_id=row.pk, actor=actor, at=at
            ),
            done="is declined",
        )
