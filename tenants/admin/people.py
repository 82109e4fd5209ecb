"""Admin pages of people, groups and roles."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from tenants.admin.base import LedgerAdmin, ServiceAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.roles import Role
from tenants.models import Membership
from tenants.services import memberships, people

if TYPE_CHECKING:
    UserPages = UserAdmin[User]
else:
    UserPages = UserAdmin

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserPages, LedgerAdmin):  # type: ignore[misc]
    """People who sign in. What they may do is told by memberships, not by Django's permissions."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    view_capability = "tenants:membership:read"
    write_capability = "tenants:membership:write"
    hint = "What a person may do is told by memberships. Nobody is deleted: deactivate them."
    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_staff")
    list_filter = ("is_active", "is_staff", "is_superuser")
    readonly_fields = ("is_active", "is_superuser", "last_login", "date_joined")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    actions = ("deactivate_people", "activate_people")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether the signed-in person may add people."""
        return self.has_write_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whether the signed-in person may change people; a superuser only changes itself."""
        if isinstance(obj, User) and obj.is_superuser and obj.pk != request.user.pk:
            return False
        return self.has_write_permission(request)

    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Leave the audit entry of a person who was made."""
        self._note(request, obj, message, verb="create")
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: User, message: Any) -> Any:  # noqa: ANN401 - As above.
        """Leave the audit entry of a person who was changed, or given another password."""
        self._note(request, obj, message, verb="update")
        return super().log_change(request, obj, message)

    def _note(self, request: HttpRequest, user: User, message: Any, *, verb: str) -> None:  # noqa: ANN401
        people.note_user_saved(
            user=user,
            verb=verb,
            fields=[name for part in message for told in part.values() for name in _names(told)],
            actor=actor_of_request(request),
            at=timezone.now(),
        )

    @admin.action(description="Deactivate", permissions=["write"])
    def deactivate_people(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        """Keep the chosen people out."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: people.deactivate_user(user=row, actor=actor, at=at),
            done="is deactivated",
        )

    @admin.action(description="Activate", permissions=["write"])
    def activate_people(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        """Let the chosen people in again."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: people.activate_user(user=row, actor=actor, at=at),
            done="is active",
        )


def _names(told: Mapping[str, Any]) -> list[str]:
    """Return the names of fields in one part of Django's change message."""
    return [str(name) for name in told.get("fields", ())]


@admin.register(Group)
class GroupAdmin(LedgerAdmin):
    """Django's groups, which give nothing here."""

    view_capability = "tenants:membership:read"
    hint = "Groups give no rights in GPU Ledger: roles are given by memberships."
    search_fields = ("name",)


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """Who has which role, and how far it reaches."""

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
        """Return who has the role."""
        return str(membership.user or membership.service_account)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Membership:
        """Give a role."""
        return memberships.grant_role(
            **{**fields, "role": Role(fields["role"])}, actor=actor, at=at
        )

    @admin.action(description="Take the role away", permissions=["write"])
    def take_roles(self, request: HttpRequest, rows: QuerySet[Membership]) -> None:
        """Take the chosen roles away."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: memberships.revoke_role(membership=row, actor=actor, at=at),
            done="was taken away",
        )
