"""Admin pages of enforcement: desired, applied and live quota of each namespace."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext
from unfold.decorators import display

from quotas.adapters import quota_enforcer
from quotas.domain.enforcement.resource_quota import compare_keys, format_granted, format_hard
from quotas.models import EnforcementTarget
from quotas.selectors.enforcement.coverage import uncounted_reason
from quotas.services.enforcement.applying import apply_again, force_targets, read_again
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.lists import MarkFilter
from tenants.templatetags.texts import english, minute_text, value_text

ORGANIZATION = "project__organization"
ERROR_LENGTH_MAX = 70
"""Of the list; two lines of it beside the other columns in a window 1440 pixels wide."""


@admin.register(EnforcementTarget)
class EnforcementTargetAdmin(LedgerAdmin):
    """How far limits have come in the clusters."""

    view_capability = "quotas:enforcement:read"
    write_capability = "quotas:enforcement:write"
    hint = (
        "A quota is called applied only when the cluster's status was read back equal. In a "
        "conflict another manager owns the object, or deletes it again and again: undo its change, "
        "and the next try applies, or overwrite it. Choose namespaces to apply, overwrite or read "
        "them again at once."
    )
    change_form_before_template = "admin/quotas/enforcementtarget/comparison.html"
    fields = (
        "cluster",
        "namespace",
        "project",
        "state",
        "held_text",
        "division_text",
        "refused_text",
        "desired_generation",
        "applied_generation",
        "attempt",
        "next_try_at",
        "error_text",
        "notice",
        "drifted_at",
        "managers_text",
        "drifts_repaired",
        "applied_at",
        "checked_at",
    )
    list_display = (
        "place",
        "state_label",
        "desired_text",
        "live_text",
        "burst_text",
        "drift_label",
        "checked_at",
        "problem_text",
    )
    list_filter = ("state", ("drifted_at", MarkFilter), "cluster", ORGANIZATION)
    list_select_related = ("cluster", "project")
    actions = ("apply_targets", "force_targets", "read_targets")
    search_fields = ("namespace", "cluster__slug", "project__name", "last_error")

    @display(
        description="state",
        ordering="state",
        label={
            "pending": "warning",
            "applied": "success",
            "conflict": "danger",
            "failed": "danger",
        },
    )
    def state_label(self, target: EnforcementTarget) -> tuple[str, str]:
        """Return the state, coloured by unfold."""
        return target.state, value_text(target.state)

    @display(description="namespace", ordering="namespace", header=True)
    def place(self, target: EnforcementTarget) -> tuple[str, str]:
        """Return the namespace, and below it its project and its cluster."""
        return target.namespace, gettext("{what} on {cluster}").format(
            what=target.project.name, cluster=target.cluster.slug
        )

    @display(description="desired")
    def desired_text(self, target: EnforcementTarget) -> str:
        """Return what the namespace should say."""
        return format_granted(target.desired_hard)

    @display(description="live")
    def live_text(self, target: EnforcementTarget) -> str:
        """Return the namespace's values at the last read."""
        return format_granted(target.live_hard)

    @display(description="burst")
    def burst_text(self, target: EnforcementTarget) -> str:
        """Return what preemptible pods may hold beyond."""
        return format_granted(target.desired_burst) if target.desired_burst else "-"

    @display(description="last error", ordering="last_error")
    def problem_text(self, target: EnforcementTarget) -> str:
        """Return the begin of the last error; the whole of it is on the target's page."""
        return Truncator(target.last_error).chars(ERROR_LENGTH_MAX) or "-"

    @display(description="last error")
    def error_text(self, target: EnforcementTarget) -> str:
        """Return the whole last error."""
        return target.last_error or gettext("none")

    @display(description="suspended")
    def held_text(self, target: EnforcementTarget) -> str:
        """Return whether its tenant may start anything."""
        return gettext("yes: nothing new may start") if target.is_held else gettext("no")

    @display(description="limit")
    def division_text(self, target: EnforcementTarget) -> str:
        """Return whether the limit is divided over namespaces, and why."""
        reason = uncounted_reason(target)
        if not reason:
            return gettext("whole where all its namespaces are counted")
        return format_html("{}: {}", gettext("divided"), english(reason))

    @display(description="refused pods")
    def refused_text(self, target: EnforcementTarget) -> str:
        """Return which workloads lack pods because of this quota; bare pods leave no trace."""
        found = (
            gettext("{pods} of {workload}").format(pods=one["pods"], workload=one["workload"])
            for one in target.refused_pods
        )
        return ", ".join(found) or gettext("none of a controller (pods without one are not known)")

    @display(description="next try at", ordering="not_before")
    def next_try_at(self, target: EnforcementTarget) -> str:
        """Return before when it is not tried again."""
        return f"{minute_text(target.not_before)} UTC"

    @display(description="drift was written by")
    def managers_text(self, target: EnforcementTarget) -> str:
        """Return the field managers of the objects when drift was found."""
        if target.drift_managers:
            return ", ".join(target.drift_managers)
        return "-" if target.drifted_at is None else gettext("nobody: an object was gone")

    @display(
        description="drift",
        ordering="drifted_at",
        label={"drifted": "danger", "others": "warning", "none": "success"},
    )
    def drift_label(self, target: EnforcementTarget) -> tuple[str, str]:
        """Return whether another client changed it, or keeps another quota beside it."""
        if target.drifted_at is not None:
            return "drifted", gettext("drifted")
        if target.foreign_quotas:
            return "others", gettext("others")
        return "none", gettext("none")

    @admin.action(description="Apply again now", permissions=["write"])
    def apply_targets(self, request: HttpRequest, rows: QuerySet[EnforcementTarget]) -> None:
        """Apply the desired quotas of the chosen namespaces again."""
        self._apply(request, rows, apply_again)

    @admin.action(description="Overwrite other managers now", permissions=["write"])
    def force_targets(self, request: HttpRequest, rows: QuerySet[EnforcementTarget]) -> None:
        """Apply the desired quotas of the chosen namespaces over other managers' values."""
        self._apply(request, rows, force_targets)

    def _apply(
        self,
        request: HttpRequest,
        rows: QuerySet[EnforcementTarget],
        apply: Callable[..., int],
    ) -> None:
        chosen = [row.pk for row in rows]
        applied = apply(
            target_ids=chosen,
            enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
            actor=actor_of_request(request),
            at=timezone.now(),
        )
        level = messages.SUCCESS if applied == len(chosen) else messages.WARNING
        text = gettext("{applied} of {chosen} are applied.")
        text = text.format(applied=applied, chosen=len(chosen))
        self.message_user(request, text, level)

    @admin.action(description="Read again now", permissions=["write"])
    def read_targets(self, request: HttpRequest, rows: QuerySet[EnforcementTarget]) -> None:
        """Read what the chosen namespaces say; drift is repaired."""
        chosen = [row.pk for row in rows]
        drifted = read_again(
            target_ids=chosen,
            enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
            actor=actor_of_request(request),
            at=timezone.now(),
        )
        text = gettext("{chosen} were read; {drifted} had drifted.")
        text = text.format(chosen=len(chosen), drifted=drifted)
        self.message_user(request, text, messages.SUCCESS)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of one target, with desired, live and used side by side."""
        target = self.get_object(request, object_id) if object_id else None
        context = {**_comparison(target), **(extra_context or {})}
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return answer


def _comparison(target: EnforcementTarget | None) -> dict[str, Any]:
    """Return what one target's page sets side by side."""
    if target is None:
        return {}
    quota_caps = [
        (
            gettext("Nominal units"),
            compare_keys(
                target.desired_hard, target.live_hard, target.live_used, target.applied_hard
            ),
        ),
        (
            gettext("Burst units, for preemptible pods"),
            compare_keys(
                target.desired_burst,
                target.live_burst,
                target.live_burst_used,
                target.applied_burst,
            ),
        ),
    ]
    return {
        "quota_caps": [(title, keys) for title, keys in quota_caps if keys],
        "foreign": [(name, format_hard(hard)) for name, hard in target.foreign_quotas.items()],
        "target": target,
    }
