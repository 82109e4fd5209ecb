"""Admin pages of quota limits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from unfold.decorators import action, display
from unfold.widgets import UnfoldBooleanSwitchWidget

from quotas.admin.board import board_page
from quotas.domain.limits.input import KEEP
from quotas.models import QuotaLimit
from quotas.selectors.limits.in_force import with_units_in_force
from quotas.services.limits.limits import remove_limit, set_limit
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor

READ_LIMIT = "quotas:limit:read"
TERMS = (
    "is_unlimited",
    "limit_units",
    "burst_units",
    "overcommit_percent",
    "monthly_unit_hours",
)


class LimitForm(ServiceForm):
    """A limit; unlimited is set by a switch, never by an empty field."""

    is_unlimited = forms.BooleanField(
        required=False,
        label=gettext_lazy("Unlimited"),
        widget=UnfoldBooleanSwitchWidget(),
        help_text="This level allows any number. Without a limit at all, the level above decides.",
    )

    class Meta:
        help_texts = {
            "model_group": 'Only this GPU model, such as "H100"; empty is every model.',
            "cluster": "Only this cluster; empty is every cluster.",
            "limit_units": "Units that may be in use at once; 0 is none.",
            "burst_units": "Beyond that, for preemptible pods only.",
            "overcommit_percent": "How much of it may be promised to the level below, together.",
            "monthly_unit_hours": "What may be used in a UTC month; empty is any number.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Show the switch as the limit is."""
        super().__init__(*args, **kwargs)
        limit: Any = self.instance
        if not limit._state.adding:  # noqa: SLF001 - Django's documented model state.
            self.initial["is_unlimited"] = limit.limit_units is None

    def clean(self) -> dict[str, Any]:
        """Refuse a number with the switch on, and nothing with it off."""
        fields: dict[str, Any] = super().clean() or {}
        if "limit_units" in self.errors or "limit_units" not in self.fields:
            return fields
        if fields["is_unlimited"] and fields["limit_units"] is not None:
            self.add_error("limit_units", gettext("Clear the number, or switch unlimited off."))
        if not fields["is_unlimited"] and fields["limit_units"] is None:
            self.add_error("limit_units", gettext("Enter a number, or switch unlimited on."))
        return fields


@admin.register(QuotaLimit)
class QuotaLimitAdmin(ServiceAdmin):
    """How many units may be held at once."""

    form = LimitForm
    view_capability = READ_LIMIT
    write_capability = "quotas:limit:write"
    hint = (
        "No limit is above the one that covers it, and together the limits of a level stay within "
        "what may be promised of the one above. A changed limit reaches the clusters in seconds."
    )
    add_fields = (
        "scope",
        "organization",
        "project",
        "user",
        "size",
        "model_group",
        "cluster",
        *TERMS,
    )
    change_fields = TERMS
    list_display = (
        "organization",
        "scope_label",
        "project_text",
        "user_text",
        "terms_text",
        "in_force_label",
        "overcommit_text",
        "allowance_text",
        "changed_at",
    )
    list_filter = ("scope", "size", "cluster", "organization")
    list_select_related = ("organization", "project", "user", "cluster")
    search_fields = (
        "organization__name",
        "organization__slug",
        "project__name",
        "project__slug",
        "user__username",
        "model_group",
    )
    autocomplete_fields = ("organization", "project", "user", "cluster")
    actions = ("remove_limits",)
    actions_list = ("board",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuotaLimit]:
        """Return the limits with what is in force now."""
        rows: QuerySet[QuotaLimit] = super().get_queryset(request)
        related = rows.select_related(*self.list_select_related)
        return with_units_in_force(related, at=timezone.now())

    @display(
        description="scope",
        ordering="scope",
        label={"organization": "info", "project": "primary", "user": ""},
    )
    def scope_label(self, limit: QuotaLimit) -> tuple[str, str]:
        """Return the level, coloured by unfold."""
        return limit.scope, limit.get_scope_display()

    @display(description="project", ordering="project__slug")
    def project_text(self, limit: QuotaLimit) -> str:
        """Return the project; "" for an organization's own."""
        return "" if limit.project is None else limit.project.name

    @display(description="user", ordering="user__username")
    def user_text(self, limit: QuotaLimit) -> str:
        """Return the user; "" for everybody."""
        return "" if limit.user is None else limit.user.username

    @display(description="limit", ordering="limit_units")
    def terms_text(self, limit: QuotaLimit) -> str:
        """Return the limit as text."""
        units = gettext("unlimited") if limit.limit_units is None else limit.limit_units
        only, on = gettext("{model} only"), gettext("on {cluster}")
        parts = (
            f"{units} {limit.size.capitalize()}",
            only.format(model=limit.model_group) if limit.model_group else "",
            "" if limit.cluster is None else on.format(cluster=limit.cluster.slug),
            gettext("+{units} burst").format(units=limit.burst_units) if limit.burst_units else "",
        )
        return ", ".join(part for part in parts if part)

    @display(
        description="in force now", label={"suspended": "danger", "granted": "success", "set": ""}
    )
    def in_force_label(self, limit: Any) -> tuple[str, str]:  # noqa: ANN401 - Annotated.
        """Return what binds now, coloured where it is not what was set."""
        if limit.suspended:
            return "suspended", gettext("suspended")
        if limit.limit_units is None:
            return "set", gettext("unlimited")
        if not limit.granted:
            return "set", str(limit.limit_units)
        units = max(0, limit.limit_units + limit.granted)
        text = gettext("{units} ({granted} granted)")
        return "granted", text.format(units=units, granted=f"{limit.granted:+d}")

    @display(description="promised below", ordering="overcommit_percent")
    def overcommit_text(self, limit: QuotaLimit) -> str:
        """Return how much may be promised; "" for a user's limit, which has no level below."""
        return "" if limit.user_id is not None else f"{limit.overcommit_percent} %"

    @display(description="unit-hours a month", ordering="monthly_unit_hours")
    def allowance_text(self, limit: QuotaLimit) -> str:
        """Return the month's allowance."""
        return gettext("any") if limit.monthly_unit_hours is None else str(limit.monthly_unit_hours)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> QuotaLimit:
        """Set a limit."""
        said = {name: value for name, value in fields.items() if name != "is_unlimited"}
        return set_limit(**said, actor=actor, at=at)

    def change(
        self, row: QuotaLimit, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> QuotaLimit:
        """Change a limit."""
        said = {name: changes.get(name, KEEP) for name in TERMS[2:]}
        return set_limit(
            scope=row.scope,
            organization=row.organization,
            project=row.project,
            user=row.user,
            size=row.size,
            model_group=row.model_group,
            cluster=row.cluster,
            limit_units=changes.get("limit_units", row.limit_units),
            **said,
            actor=actor,
            at=at,
        )

    @admin.action(description="Remove", permissions=["write"])
    def remove_limits(self, request: HttpRequest, rows: QuerySet[QuotaLimit]) -> None:
        """Take the chosen limits away; the level above decides again."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: remove_limit(limit_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is removed"),
        )

    @action(description="Quota board", url_path="board", permissions=["view"], icon="leaderboard")
    def board(self, request: HttpRequest) -> TemplateResponse:
        """Show used against limit of every organization, its projects and their users."""
        return board_page(request, context=self.page_context(request, title=gettext("Quota board")))
