"""Binding a namespace whose use is held: the bill, the amount, and what happens then."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.conf import settings
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from metering.adapters import held_costs
from metering.domain.corrections.exceptions import held_part_text
from metering.models import MeteringException
from metering.protocols.held_costs import cost_text, total_of
from metering.selectors.corrections.incidents import BindingEffect, binding_effect, bound_from
from tenants.access import projects_visible_to
from tenants.domain.actors import Actor
from tenants.models import Project
from tenants.services.namespaces import bind_namespace

READ_PROJECT: Final = "tenants:project:read"
METERED_AGAIN: Final = "within about ten minutes"
"""Rechecks are made every five minutes, and take some more."""


class ProjectChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # The stub's is generic.
    """A project, named with its organization."""

    def label_from_instance(self, obj: Any) -> str:  # noqa: ANN401 - Django's signature.
        """Return both names."""
        return f"{obj.organization.name}: {obj.name}"


class BindForm(forms.Form):
    """Whose namespace it is."""

    project = ProjectChoice(
        queryset=None,
        widget=UnfoldAdminSelectWidget,
        help_text="From the first hour shown above until its next binding.",
    )


@dataclass(frozen=True)
class BindingPreview:
    """What the page shows before a namespace is bound.

    Attributes:
        project: The project it would be bound to.
        held: What would be billed, by size.
        cost: What that is in money, roughly.
        next_steps: What happens then, a sentence each.
    """

    project: Project
    held: list[str]
    cost: str
    next_steps: list[str]


def bind_form(request: HttpRequest, *, actor: Actor) -> BindForm:
    """Return the form, filled by what was sent: a look by its address, a press by its body."""
    sent = next((one for one in (request.POST, request.GET) if "project" in one), None)
    form = BindForm(sent)
    projects = projects_visible_to(actor, READ_PROJECT).order_by("organization__slug", "slug")
    choice = form.fields["project"]
    assert isinstance(choice, ProjectChoice)  # noqa: S101 - Narrows the type.
    choice.queryset = projects.select_related("organization")
    return form


def chosen_project(form: BindForm) -> Project | None:
    """Return the project that a form names; None while it names none."""
    if not form.is_bound or not form.is_valid():
        return None
    project: Project = form.cleaned_data["project"]
    return project


def preview_binding(found: MeteringException, project: Project, *, at: datetime) -> BindingPreview:
    """Return what binding the namespace of an exception to a project would do.

    Args:
        found: The exception from whose hour on it would be bound.
        project: The project, with its organization.
        at: Now.
    """
    oldest_at = at - timedelta(seconds=settings.RECHECK_RETENTION_SECONDS)
    effect = binding_effect(found, project=project, oldest_at=oldest_at)
    costs = held_costs(settings.HELD_COSTS)
    sums: dict[str, int] = {}
    for use in effect.uses:
        sums[use.size] = sums.get(use.size, 0) + use.unit_seconds
    return BindingPreview(
        project=project,
        held=[held_part_text(size=size, unit_seconds=held) for size, held in sums.items()],
        cost=cost_text(total_of(costs.costs_of(effect.uses))),
        next_steps=_next_steps(effect, project),
    )


def _next_steps(effect: BindingEffect, project: Project) -> list[str]:
    steps = []
    if effect.sealed_hours:
        steps.append(
            f"{_hours(effect.sealed_hours)} already sealed: metered again {METERED_AGAIN}, and "
            "billed by a correction."
        )
    if effect.unsealed_hours:
        steps.append(f"{_hours(effect.unsealed_hours)} not sealed yet: billed once sealed.")
    if effect.late_hours:
        steps.append(
            f"{_hours(effect.late_hours)} too old for a recheck: they stay unbilled, and open "
            "until they are resolved."
        )
    bills = _bills(effect, project)
    if bills:
        steps.append(f"The use appears on the {bills} bill of {project.organization.name}.")
    return steps


def _hours(number: int) -> str:
    return f"{number:,} {'hour' if number == 1 else 'hours'}"


def _bills(effect: BindingEffect, project: Project) -> str:
    """Return the months of the bills, such as "October 2026 and November 2026"."""
    if effect.first_start is None or effect.last_start is None:
        return ""
    months = held_costs(settings.HELD_COSTS).bills_of(
        project.organization_id, first_start=effect.first_start, last_start=effect.last_start
    )
    return " and ".join(months)


def bind(found: MeteringException, project: Project, *, actor: Actor, at: datetime) -> str:
    """Bind the namespace of an exception from its hour on; return the message to show.

    Raises:
        DomainError: The binding is refused.
    """
    preview = preview_binding(found, project, at=at)
    bind_namespace(
        cluster=found.cluster,
        namespace=found.namespace,
        project=project,
        valid_from=found.window_start,
        valid_until=bound_from(found),
        actor=actor,
        at=at,
    )
    steps = " ".join(preview.next_steps)
    return f"{found.namespace} belongs to {project.name} from that hour on. {steps}".strip()
