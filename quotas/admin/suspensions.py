"""Admin pages of suspensions: who may start nothing new, since when and why."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from quotas.models import QuotaSuspension
from quotas.selectors.suspensions import with_who_asked
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
        "begin_text",
        "end_text",
    )
    told_fields = (
        "organization",
        "project_text",
        "reason",
        "source_text",
        "begin_text",
        "end_text",
    )
    list_filter = ("source", "organization")
    list_select_related = ("organization", "project")
    search_fields = ("organization__name", "project__name", "project__slug", "reason")
    autocomplete_fields = ("organization", "project")
    actions = ("resume",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuotaSuspension]:
        """Return the suspensions with who asked for them."""
        rows: QuerySet[QuotaSuspension] = super().get_queryset(request)
        return with_who_asked(rows)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:  # noqa: ARG002 - Django's signature.
        """Return the form's fields, or what is told of a suspension."""
        return list(self.add_fields if obj is None else self.told_fields)

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
    def source_text(self, suspension: Any) -> str:  # noqa: ANN401 - Annotated.
        """Return which rule asked for it, or who."""
        who = suspension.asked_by or "not recorded"
        return f"{suspension.source} rule ({who})" if suspension.source else who

    @display(description="until", ordering="end_at")
    def end_text(self, suspension: QuotaSuspension) -> str:
        """Return when it was resumed."""
        end_at = suspension.end_at
        return "until resumed" if end_at is None else f"{end_at:%Y-%m-%d %H:%M} UTC"

    @display(description="since", ordering="begin_at")
    def begin_text(self, suspension: QuotaSuspension) -> str:
        """Return when it began."""
        return f"{suspension.begin_at:%Y-%m-%d %H:%M} UTC"

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
