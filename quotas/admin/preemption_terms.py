"""Admin pages of preemption's terms: protected windows, and what is done without a person."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from quotas.domain.preemption.states import window_state
from quotas.models import PreemptionMode, PreemptionPolicy, ProtectedWindow
from quotas.services.preemption.protected_windows import close_window, open_window
from quotas.services.preemption.sweep import set_policy
from tenants.admin.base import LedgerAdmin, ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor
from tenants.templatetags.texts import minute_text, value_text


class WindowForm(ServiceForm):
    """A protected window, with its range as two times."""

    valid_from = forms.SplitDateTimeField(widget=UnfoldAdminSplitDateTimeWidget(), help_text="UTC.")
    valid_until = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(), help_text="UTC; at most 31 days later."
    )

    class Meta:
        help_texts = {
            "project": "Empty protects the whole organization.",
            "reason": "Shown in plans that skip these pods.",
        }


@admin.register(ProtectedWindow)
class ProtectedWindowAdmin(ServiceAdmin):
    """When nothing of a tenant is preempted."""

    form = WindowForm
    view_capability = "quotas:preemption:read"
    write_capability = "quotas:preemption:write"
    hint = "Within a protected window nothing of its tenant is preempted, also by a running plan."
    add_fields = ("organization", "project", "valid_from", "valid_until", "reason")
    list_display = (
        "organization",
        "project",
        "state_label",
        "begin_text",
        "end_text",
        "reason",
        "created_by",
    )
    list_filter = ("organization",)
    list_select_related = ("organization", "project")
    search_fields = ("organization__name", "project__name", "reason")
    autocomplete_fields = ("organization", "project")
    actions = ("close_windows",)

    def get_fields(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Any = None,  # noqa: ANN401 - As above.
    ) -> list[str]:
        """Return the form's fields, or the columns of a row."""
        if obj is None:
            return list(self.add_fields)
        return [
            "organization",
            "project",
            "state_label",
            "begin_text",
            "end_text",
            "cancelled_at",
            "reason",
            "created_by",
            "created_at",
        ]

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ProtectedWindow:
        """Promise a window."""
        return open_window(**fields, actor=actor, at=at)

    @display(
        description="state",
        label={"coming": "info", "in_force": "success", "over": "", "cancelled": "warning"},
    )
    def state_label(self, window: ProtectedWindow) -> tuple[str, str]:
        """Return its state, coloured."""
        state = window_state(
            window.valid.lower, window.valid.upper, window.cancelled_at, at=timezone.now()
        )
        return state.value, value_text(state.value)

    @display(description="begin")
    def begin_text(self, window: ProtectedWindow) -> str:
        """Return when it begins."""
        return _time_text(window.valid.lower)

    @display(description="end")
    def end_text(self, window: ProtectedWindow) -> str:
        """Return when it ends."""
        return _time_text(window.valid.upper)

    @admin.action(description="End now", permissions=["write"])
    def close_windows(self, request: HttpRequest, rows: QuerySet[ProtectedWindow]) -> None:
        """End the chosen windows."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: close_window(window_id=row.pk, actor=actor, at=at),
            done=gettext_noop("has ended"),
        )


@admin.register(PreemptionPolicy)
class PreemptionPolicyAdmin(LedgerAdmin):
    """What the service does by itself about tenants that stay over their limits."""

    view_capability = "quotas:preemption:read"
    write_capability = "quotas:preemption:write"
    hint = (
        "An organization that uses more than allowed for a while gets a proposed plan. "
        "Choose organizations whose plans are executed automatically, or that get none."
    )
    list_display = ("organization", "mode_label", "over_since", "changed_at")
    list_filter = ("mode",)
    list_select_related = ("organization",)
    search_fields = ("organization__name", "organization__slug")
    actions = ("propose", "execute", "leave")

    @display(
        description="by itself",
        ordering="mode",
        label={"off": "default", "propose": "info", "execute": "danger"},
    )
    def mode_label(self, policy: PreemptionPolicy) -> tuple[str, str]:
        """Return the mode, coloured."""
        return str(policy.mode), value_text(policy.mode)

    @admin.action(description="Propose plans only", permissions=["write"])
    def propose(self, request: HttpRequest, rows: QuerySet[PreemptionPolicy]) -> None:
        """Leave execution to a person."""
        self._set(request, rows, PreemptionMode.PROPOSE)

    @admin.action(description="Execute plans automatically", permissions=["write"])
    def execute(self, request: HttpRequest, rows: QuerySet[PreemptionPolicy]) -> None:
        """Let plans run by themselves."""
        self._set(request, rows, PreemptionMode.EXECUTE)

    @admin.action(description="Do nothing", permissions=["write"])
    def leave(self, request: HttpRequest, rows: QuerySet[PreemptionPolicy]) -> None:
        """Make no plans."""
        self._set(request, rows, PreemptionMode.OFF)

    def _set(
        self, request: HttpRequest, rows: QuerySet[PreemptionPolicy], mode: PreemptionMode
    ) -> None:
        def call(row: PreemptionPolicy, actor: Actor, at: datetime) -> object:
            return set_policy(organization=row.organization, mode=mode, actor=actor, at=at)

        self.for_each(request, rows, call, done=gettext_noop("is set"))


def _time_text(at: datetime | None) -> str:
    return gettext("not kept") if at is None else f"{minute_text(at)} UTC"
