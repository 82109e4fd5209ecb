"""Admin pages of isolation policies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Field, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from quotas.models import IsolationPolicy
from quotas.models.isolation import SERVING_MODE_CHOICES
from quotas.services.isolation import (
    change_isolation_policy,
    remove_isolation_policy,
    set_isolation_policy,
)
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor


@admin.register(IsolationPolicy)
class IsolationPolicyAdmin(ServiceAdmin):
    """Device modes that may serve a tenant."""

    view_capability = "quotas:isolation:read"
    write_capability = "quotas:isolation:write"
    hint = (
        "Only the most specific policy applies: project before organization, one kind of "
        "work before any. Without one, training is never shared and tenants do not share a "
        "device."
    )
    add_fields = (
        "organization",
        "project",
        "work_kind",
        "modes",
        "allow_shared_with_other_tenants",
        "default_kind",
    )
    change_fields = ("modes", "allow_shared_with_other_tenants", "default_kind")
    list_display = (
        "organization",
        "project",
        "kind_text",
        "modes_text",
        "allow_shared_with_other_tenants",
        "default_kind",
        "changed_at",
    )
    list_filter = ("work_kind", "allow_shared_with_other_tenants", "organization")
    list_select_related = ("organization", "project")
    search_fields = ("organization__name", "organization__slug", "project__name", "project__slug")
    autocomplete_fields = ("organization", "project")
    actions = ("remove_policies",)

    @display(description="kind of work", ordering="work_kind")
    def kind_text(self, policy: IsolationPolicy) -> str:
        """Return the kind of work as text."""
        return policy.get_work_kind_display() or gettext("Any")

    @display(description="may be served by")
    def modes_text(self, policy: IsolationPolicy) -> str:
        """Return the modes as they are stored, from the strictest to the loosest."""
        return ", ".join(policy.modes) or "nothing"

    def formfield_for_dbfield(
        self,
        db_field: "Field[Any, Any]",
        request: HttpRequest,
        **kwargs: Any,  # noqa: ANN401 - Django's signature.
    ) -> forms.Field | None:
        """Return a column's form field; the modes are boxes to tick."""
        if db_field.name == "modes":
            return forms.MultipleChoiceField(
                label=capfirst(db_field.verbose_name),
                choices=SERVING_MODE_CHOICES,
                required=False,
                widget=UnfoldAdminCheckboxSelectMultipleWidget,
                help_text=gettext("Without any, no GPU pod is admitted."),
            )
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> IsolationPolicy:
        """Set a policy."""
        return set_isolation_policy(**fields, actor=actor, at=at)

    def change(
        self, row: IsolationPolicy, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> IsolationPolicy:
        """Change what a policy allows."""
        return change_isolation_policy(policy_id=row.pk, changes=changes, actor=actor, at=at)

    @admin.action(description="Remove", permissions=["write"])
    def remove_policies(self, request: HttpRequest, rows: QuerySet[IsolationPolicy]) -> None:
        """Take the chosen policies away; what is wider, or the default, holds again."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: remove_isolation_policy(policy_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is removed"),
        )
