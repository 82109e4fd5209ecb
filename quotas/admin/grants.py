"""Admin pages of quota grants and of suspensions."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from quotas.domain.limits.input import GrantState, grant_state
from quotas.models import QuotaGrant, QuotaSuspension
from quotas.selectors.limits.limits import with_requester
from quotas.services.limits.grants import end_grant, grant_units
from quotas.services.limits.suspensions import resume_suspension, suspend_tenant
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor
from tenants.templatetags.texts import minute_text, value_text


class GrantForm(ServiceForm):
    """A grant, with its range as two times."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        required=False,
        help_text="UTC; empty is now.",
    )
    valid_until = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        required=False,
        help_text="UTC; empty means until it is ended.",
    )

    class Meta:
        help_texts = {
            "limit": "The limit it is on top of; unlimited ones need none.",
            "units": "Below zero takes units away for a time.",
            "note": "What it is for.",
        }


@admin.register(QuotaGrant)
class QuotaGrantAdmin(ServiceAdmin):
    """Units on top of a limit, or taken from it."""

    form = GrantForm
    view_capability = "quotas:limit:read"
    write_capability = "quotas:limit:write"
    hint = (
        "A grant holds from its begin up to its end and is never deleted: choose it and end it. "
        "Half a loan ends with its loan."
    )
    add_fields = ("limit", "units", "valid_from", "valid_until", "note")
    list_display = (
        "organization",
        "project_text",
        "limit_text",
        "units_text",
        "begin_text",
        "end_text",
        "state_label",
        "reason",
        "note",
    )
    list_filter = ("reason", "organization")
    list_select_related = ("organization", "project", "limit")
    search_fields = ("organization__name", "project__name", "project__slug", "reference", "note")
    autocomplete_fields = ("limit",)
    actions = ("end_grants",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuotaGrant]:
        """Return the grants with the rows that describe their limit."""
        rows: QuerySet[QuotaGrant] = super().get_queryset(request)
        return rows.select_related(
            "organization",
            "project",
            "limit__organization",
            "limit__project",
            "limit__user",
            "limit__cluster",
        )

    def get_readonly_fields(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Any = None,  # noqa: ANN401 - As above.
    ) -> tuple[str, ...]:
        """Return what a grant's page shows."""
        return () if obj is None else (*self.list_display[:-2], "reason", "reference", "note")

    def get_fields(
        self,
        request: HttpRequest,
        obj: Any = None,  # noqa: ANN401 - Django's signature.
    ) -> list[str]:
        """Return the fields of the form that adds, or what a grant's page shows."""
        return list(self.add_fields if obj is None else self.get_readonly_fields(request, obj))

    @display(description="project", ordering="project__slug")
    def project_text(self, grant: QuotaGrant) -> str:
        """Return the project; "" for an organization's own limit."""
        return "" if grant.project is None else grant.project.name

    @display(description="limit")
    def limit_text(self, grant: QuotaGrant) -> str:
        """Return the limit it is on top of."""
        return gettext("removed since") if grant.limit is None else str(grant.limit)

    @display(description="units", ordering="units")
    def units_text(self, grant: QuotaGrant) -> str:
        """Return the units with their sign."""
        return f"{grant.units:+d}"

    @display(description="from", ordering="valid")
    def begin_text(self, grant: QuotaGrant) -> datetime | None:
        """Return when it begins."""
        begin_at: datetime | None = grant.valid.lower
        return begin_at

    @display(description="until", empty_value=gettext_lazy("until ended"))
    def end_text(self, grant: QuotaGrant) -> datetime | None:
        """Return when it ends."""
        end_at: datetime | None = grant.valid.upper
        return end_at

    @display(
        description="state",
        label={"coming": "info", "in_force": "success", "over": "", "cancelled": "warning"},
    )
    def state_label(self, grant: QuotaGrant) -> tuple[str, str]:
        """Return its state now, coloured by unfold."""
        state: GrantState = grant_state(grant.valid.lower, grant.valid.upper, at=timezone.now())
        return state.value, value_text(state.value)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> QuotaGrant:
        """Grant units by hand."""
        return grant_units(
            limit_id=fields["limit"].pk,
            units=fields["units"],
            begin_at=fields["valid_from"],
            end_at=fields["valid_until"],
            note=fields["note"],
            actor=actor,
            at=at,
        )

    @admin.action(description="End now", permissions=["write"])
    def end_grants(self, request: HttpRequest, rows: QuerySet[QuotaGrant]) -> None:
        """End the chosen grants; those that have not begun are cancelled."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: end_grant(grant_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is ended"),
        )


class SuspensionForm(ServiceForm):
    """The tenant to suspend, and the reason."""

    class Meta:
        help_texts = {
            "project": "Empty suspends the whole organization.",
            "reason": "Shown to those who are refused.",
        }


@admin.register(QuotaSuspension)
class QuotaSuspensionAdmin(ServiceAdmin):
    """Tenants that may start no new workloads."""

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
    shown_fields = (
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
        """Return the suspensions with their actors."""
        rows: QuerySet[QuotaSuspension] = super().get_queryset(request)
        return with_requester(rows)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:  # noqa: ARG002 - Django's signature.
        """Return the form's fields, or those shown of a suspension."""
        return list(self.add_fields if obj is None else self.shown_fields)

    @display(description="project", ordering="project__slug")
    def project_text(self, suspension: QuotaSuspension) -> str:
        """Return the project, or that it is all of them."""
        return gettext("all projects") if suspension.project is None else suspension.project.name

    @display(
        description="state",
        ordering="end_at",
        label={"suspended": "danger", "resumed": "success"},
    )
    def state_label(self, suspension: QuotaSuspension) -> tuple[str, str]:
        """Return whether it is in force, coloured by unfold."""
        if suspension.end_at is None:
            return "suspended", gettext("suspended")
        return "resumed", gettext("resumed")

    @display(description="requested by", ordering="source")
    def source_text(self, suspension: Any) -> str:  # noqa: ANN401 - Annotated.
        """Return the rule or actor that set it."""
        requester = suspension.requested_by or gettext("not recorded")
        if not suspension.source:
            return str(requester)
        return gettext("{rule} rule ({requester})").format(
            rule=suspension.source, requester=requester
        )

    @display(description="until", ordering="end_at")
    def end_text(self, suspension: QuotaSuspension) -> str:
        """Return when it was resumed."""
        end_at = suspension.end_at
        return gettext("until resumed") if end_at is None else f"{minute_text(end_at)} UTC"

    @display(description="since", ordering="begin_at")
    def begin_text(self, suspension: QuotaSuspension) -> str:
        """Return when it began."""
        return f"{minute_text(suspension.begin_at)} UTC"

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
            done=gettext_noop("is resumed"),
        )
