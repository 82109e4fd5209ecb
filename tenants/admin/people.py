"""Admin pages of people, groups and roles."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import django.contrib.auth.admin  # noqa: F401 - It registers what is unregistered below.
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from tenants.adapters.mail import is_mail_set_up
from tenants.admin.base import LedgerAdmin, ServiceAdmin, row_action
from tenants.admin.links import send_password_link
from tenants.domain.actors import Actor
from tenants.domain.identity.refusals import MailMissingError
from tenants.domain.identity.roles import Role
from tenants.models import Membership
from tenants.services.identity import memberships, people

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(ServiceAdmin):
    """People with a login. Memberships decide what they may do, not Django's permissions."""

    view_capability = "tenants:membership:read"
    write_capability = "tenants:membership:write"
    hint = (
        "What a person may do is a matter of memberships. A person sets the password by a link "
        "sent to the mail address; no page sets it. People are never deleted: deactivate them."
    )
    add_fields = ("username", "email", "first_name", "last_name")
    change_fields = ("username", "email", "first_name", "last_name", "is_staff")
    fields = (*change_fields, "is_active", "is_superuser", "last_login", "date_joined")
    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_staff")
    list_filter = ("is_active", "is_staff", "is_superuser")
    search_fields = ("username", "first_name", "last_name", "email")
    ordering = ("username",)
    actions = ("send_links", "deactivate_people", "activate_people")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whether the signed-in person may change people; a superuser only changes itself."""
        if isinstance(obj, User) and obj.is_superuser and obj.pk != request.user.pk:
            return False
        return super().has_change_permission(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Refuse to ask for a part of a password's hash in the page's own address."""
        if lookup.startswith("password"):
            return False
        return bool(super().lookup_allowed(lookup, value, request))

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> User:
        """Make a person and send the link."""
        person = people.create_person(**fields, is_mail_set_up=is_mail_set_up(), actor=actor, at=at)
        send_password_link(person, actor=actor, at=at)
        return person

    def change(self, row: User, changes: Mapping[str, Any], *, actor: Actor, at: datetime) -> User:
        """Change a person."""
        return people.change_person(user=row, changes=changes, actor=actor, at=at)

    @admin.action(description="Send a link to set a password", permissions=["write"])
    def send_links(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        """Send each of the chosen people a link to their own address."""
        if not is_mail_set_up():
            self.report_refusal(request, MailMissingError("No mail server is set up."))
            return
        self.for_each(
            request,
            rows,
            lambda row, actor, at: send_password_link(row, actor=actor, at=at),
            done=gettext_noop("gets a link, once in five minutes"),
        )

    @row_action("Deactivate", done="is deactivated")
    def deactivate_people(self, row: User, *, actor: Actor, at: datetime) -> None:
        """Deactivate a person."""
        people.deactivate_user(user=row, actor=actor, at=at)

    @row_action("Activate", done="is active")
    def activate_people(self, row: User, *, actor: Actor, at: datetime) -> None:
        """Activate a person."""
        people.activate_user(user=row, actor=actor, at=at)


@admin.register(Group)
class GroupAdmin(LedgerAdmin):
    """Django's groups, which give nothing here."""

    view_capability = "tenants:membership:read"
    hint = "Groups give no rights in GPU Ledger: roles are given by memberships."
    search_fields = ("name",)


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """Roles of people and service accounts, with their scopes."""

    view_capability = "tenants:membership:read"
    write_capability = "tenants:membership:write"
    hint = "Platform roles take no scope, organization roles an organization, others a project."
    add_fields = ("role", "user", "service_account", "organization", "project")
    list_display = ("holder", "role", "organization", "project", "created_at")
    list_filter = ("role", "organization")
    list_select_related = ("user", "service_account", "organization", "project")
    search_fields = ("user__username", "service_account__slug", "organization__name")
    autocomplete_fields = ("user", "service_account", "organization", "project")
    actions = ("take_roles",)

    @admin.display(description="holder", ordering="user__username")
    def holder(self, membership: Membership) -> str:
        """Return the holder of the role."""
        return str(membership.user or membership.service_account)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Membership:
        """Give a role."""
        return memberships.grant_role(
            **{**fields, "role": Role(fields["role"])}, actor=actor, at=at
        )

    @row_action("Take the role away", done="was taken away")
    def take_roles(self, row: Membership, *, actor: Actor, at: datetime) -> None:
        """Take a role away."""
        memberships.revoke_role(membership=row, actor=actor, at=at)
