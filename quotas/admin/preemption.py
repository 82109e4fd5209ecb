"""Admin pages of preemption plans: the victims with reasons; a second click executes a plan."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import action, display

from quotas.adapters import workload_evictor
from quotas.domain.preemption.states import PlanState
from quotas.models import PreemptionPlan
from quotas.selectors.preemption import steps_of
from quotas.services.preemption.planning import plan_preemption
from quotas.services.preemption.resuming import resume_jobs
from quotas.services.preemption.running import execute_plan, stop_plan
from tenants.admin.base import ServiceAdmin, actor_of_request
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.templatetags.texts import english, value_text

PLAN_COLORS = {
    "planned": "warning",
    "running": "info",
    "done": "success",
    "stopped": "danger",
    "expired": "default",
}


@admin.register(PreemptionPlan)
class PreemptionPlanAdmin(ServiceAdmin):
    """Workloads to preempt so that usage fits the limits again."""

    view_capability = "quotas:preemption:read"
    write_capability = "quotas:preemption:write"
    hint = (
        "Add a plan to see which pods it would end; nothing is executed by that. Open it, "
        "check every victim and its reason, then execute it: the owners of its pods are "
        "notified, and after the grace period one workload a minute is ended."
    )
    add_fields = ("organization",)
    list_display = (
        "created_at",
        "organization",
        "state_label",
        "over_text",
        "execution_text",
        "planned_by",
        "executed_by",
        "message",
    )
    list_filter = ("state", "reason", "organization")
    list_select_related = ("organization",)
    search_fields = ("organization__name", "organization__slug", "planned_by", "executed_by")
    day_column = "created_at"
    autocomplete_fields = ("organization",)
    change_form_before_template = "admin/quotas/preemptionplan/victims.html"
    actions = ("stop_plans", "resume_suspended_jobs")
    actions_detail = ("execute",)
    shown_fields = (
        "organization",
        "reason",
        "state",
        "execution_text",
        "planned_by",
        "created_at",
        "expires_at",
        "executed_by",
        "notified_at",
        "not_before",
        "end_at",
    )
    """Overages, victims and progress are shown above them as text."""

    def get_fields(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Model | None = None,
    ) -> list[str]:
        """Return the form's field, or what a plan is besides its victims."""
        return list(self.add_fields if obj is None else self.shown_fields)

    def get_actions_detail(
        self,
        request: HttpRequest,
        object_id: Any,  # noqa: ANN401 - Unfold's signature.
    ) -> list[Any]:
        """Return the buttons of a plan: one that runs or has ended is executed no more."""
        plan = self.get_object(request, str(object_id))
        if plan is None or plan.state != PlanState.PLANNED.value:
            return []
        return list(super().get_actions_detail(request, object_id))

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PreemptionPlan:
        """Make a plan; a dry run."""
        return plan_preemption(organization=fields["organization"], actor=actor, at=at)

    @display(description="state", ordering="state", label=PLAN_COLORS)
    def state_label(self, plan: PreemptionPlan) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(plan.state), value_text(plan.state)

    @display(description="dry run", ordering="is_dry_run")
    def execution_text(self, plan: PreemptionPlan) -> str:
        """Return whether anything of it was done."""
        if plan.is_dry_run:
            return gettext("Dry run: nothing was executed")
        return gettext("No: {person} executed it").format(person=plan.executed_by)

    @display(description="over")
    def over_text(self, plan: PreemptionPlan) -> str:
        """Return what is over."""
        return english("; ".join(one["sentence"] for one in plan.overage))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of one plan, with its victims before its columns."""
        plan = self.get_object(request, object_id) if object_id else None
        shown = {} if plan is None else _victims(plan)
        answer: HttpResponse = super().changeform_view(
            request, object_id, form_url, {**shown, **(extra_context or {})}
        )
        return answer

    @action(
        description="Execute",
        url_path="execute",
        permissions=["execute"],
        icon="play_arrow",
        variant="danger",
    )
    def execute(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for confirmation, and execute the plan."""
        plan = self.get_object(request, str(object_id))
        if plan is None:
            raise Http404
        if request.method == "POST" and self._executed(request, plan):
            page = reverse("admin:quotas_preemptionplan_change", args=[plan.pk])
            return HttpResponseRedirect(page)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,  # noqa: SLF001 - Django's documented model meta.
            "title": gettext("Execute this plan?"),
            "is_open": plan.state == PlanState.PLANNED.value,
            "grace_seconds": settings.PREEMPTION_GRACE_SECONDS,
            **_victims(plan),
        }
        return TemplateResponse(request, "admin/quotas/preemptionplan/execute.html", context)

    def has_execute_permission(
        self,
        request: HttpRequest,
        object_id: str,  # noqa: ARG002 - Unfold's signature.
    ) -> bool:
        """Whether the signed-in person may execute plans."""
        return self.has_write_permission(request)

    def _executed(self, request: HttpRequest, plan: PreemptionPlan) -> bool:
        try:
            execute_plan(
                plan_id=plan.pk,
                grace=timedelta(seconds=settings.PREEMPTION_GRACE_SECONDS),
                burst_classes=tuple(settings.BURST_PRIORITY_CLASSES),
                actor=actor_of_request(request),
                at=timezone.now(),
            )
        except DomainError as error:
            self.message_user(request, refusal_sentence(error), messages.ERROR)
            return False
        done = gettext("The plan runs; the owners of its pods are notified.")
        self.message_user(request, done, messages.SUCCESS)
        return True

    @admin.action(description="Stop", permissions=["write"])
    def stop_plans(self, request: HttpRequest, rows: QuerySet[PreemptionPlan]) -> None:
        """Take no further step of the chosen plans."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: stop_plan(plan_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is stopped"),
        )

    @admin.action(description="Resume suspended Jobs that fit", permissions=["write"])
    def resume_suspended_jobs(self, request: HttpRequest, rows: QuerySet[PreemptionPlan]) -> None:
        """Resume what the chosen plans have suspended, as far as it fits."""
        evictor = workload_evictor(settings.WORKLOAD_EVICTOR)
        actor, at = actor_of_request(request), timezone.now()
        shown = [
            one
            for row in rows
            for one in resume_jobs(plan_id=row.pk, evictor=evictor, actor=actor, at=at)
        ]
        for one in shown:
            level = messages.SUCCESS if one.is_resumed else messages.WARNING
            text = gettext("Job {job} is resumed.")
            if not one.is_resumed:
                text = gettext("Job {job} stays suspended: {reason}")
            job = f"{one.namespace}/{one.job}"
            self.message_user(request, format_html(text, job=job, reason=english(one.why)), level)
        if not shown:
            none = gettext("No Job of these plans is suspended.")
            self.message_user(request, none, messages.INFO)


def _victims(plan: PreemptionPlan) -> dict[str, Any]:
    """Return what the pages of a plan show: its gangs in the order of going."""
    steps = steps_of(plan)
    gangs = [list(found) for _, found in groupby(steps, key=attrgetter("victim"))]
    victims = [
        {"steps": gang, "first": gang[0], "place": place} for place, gang in enumerate(gangs, 1)
    ]
    return {"plan": plan, "victims": victims, "pods": len(steps)}
