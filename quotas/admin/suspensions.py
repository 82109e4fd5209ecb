"""Admin pages of suspensions: who may start nothing new, since when and why."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from quotas.models import QuotaSuspension
from quotas.services.suspensions import resume_suspension, suspend_tenant
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor


class SuspensionForm(ServiceForm):
    """Whom to suspend, and why."""

    class Meta:
        help_texts = {
            "project": "Empty suspends the whole organization.",
            "reason": "Told to whoever is refused.",
        }


@admin.register(QuotaSuspension)
class QuotaSuspensionAdmin(ServiceAdmin):
    """Who may start nothing new."""

    form = SuspensionForm
    view_capability = "quotas:suspension:read"
    write_capability = "quotas:suspension:write"
    hint = (
        "What runs keeps running; nothing new is admitted. A tenant starts again when every "
        "suspension of it and of its organization has been resumed."
    )
    add_fields = ("organization", "project", "reason")
    list_display = (
        "organization",
        "project_text",
        "state_label",
        "reason",
        "source_text",
        "begin_at",
        "end_text",
    )
    list_filter = ("source", "organization")
    list_select_related = ("organization", "project")
    search_fields = ("organization__name", "project__name", "project__slug", "reason")
    autocomplete_fields = ("organization", "project")
    actions = ("resume",)

    @display(description="project", ordering="project__slug")
    def project_text(self, suspension: QuotaSuspension) -> str:
        """Return the project, or that it is all of them."""
        return "all projects" if suspension.project is None else suspension.project.name

    @display(
        description="state",
        ordering="end_at",
        label={"suspended": "danger", "resumed": "success"},
    )
    def state_label(self, suspension: QuotaSuspension) -> str:
        """Return whether it is in force, coloured by unfold."""
        return "suspended" if suspension.end_at is None else "resumed"

    @display(description="asked by", ordering="source")
    def source_text(self, suspension: QuotaSuspension) -> str:
        """Return what asked for it."""
        return suspension.source or "a person"

    @display(description="until", ordering="end_at", empty_value="until resumed")
    def end_text(self, suspension: QuotaSuspension) -> datetime | None:
        """Return when it was resumed."""
        return suspension.end_at

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> QuotaSuspension:
        """Suspend."""
        return suspend_tenant(**fields, actor=actor, at=at)

    @admin.action(description="Resume", permissions=["write"])
    def resume(self, request: HttpRequest, rows: QuerySet[QuotaSuspension]) -> None:
        """End the chosen suspensions."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: resume_suspension(suspension_id=row.pk, actor=actor, at=at),
            done="is resumed",
        )
