"""Admin pages of quota grants: units on top of a limit for a range of time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from quotas.domain.grant_state import GrantState, grant_state
from quotas.models import QuotaGrant
from quotas.services.grant_ends import end_grant
from quotas.services.grants import grant_units
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor


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
        """Return the grants with all that tells their limit."""
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
        return "removed since" if grant.limit is None else str(grant.limit)

    @display(description="units", ordering="units")
    def units_text(self, grant: QuotaGrant) -> str:
        """Return the units with their sign."""
        return f"{grant.units:+d}"

    @display(description="from", ordering="valid")
    def begin_text(self, grant: QuotaGrant) -> datetime | None:
        """Return when it begins."""
        begin_at: datetime | None = grant.valid.lower
        return begin_at

    @display(description="until", empty_value="until ended")
    def end_text(self, grant: QuotaGrant) -> datetime | None:
        """Return when it ends."""
        end_at: datetime | None = grant.valid.upper
        return end_at

    @display(
        description="state",
        label={"coming": "info", "in_force": "success", "over": "", "cancelled": "warning"},
    )
    def state_label(self, grant: QuotaGrant) -> tuple[str, str]:
        """Return where it stands now, coloured by unfold."""
        state: GrantState = grant_state(grant.valid.lower, grant.valid.upper, at=timezone.now())
        return state.value, state.value.replace("_", " ")

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
            done="is ended",
        )
