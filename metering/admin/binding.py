"""Binding a namespace whose use is held: the bill, the amount, and what happens then."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext, gettext_lazy, ngettext
from unfold.widgets import UnfoldAdminSelectWidget

from metering.adapters import held_costs
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.corrections.exceptions import NOTHING_HELD
from metering.domain.figures import unit_hours_text
from metering.models import MeteringException
from metering.protocols.held_costs import HeldTotal, total_of
from metering.selectors.corrections.incidents import BindingEffect, binding_effect, bound_from
from tenants.access import projects_visible_to
from tenants.domain.actors import Actor
from tenants.models import Project
from tenants.services.namespaces import bind_namespace
from tenants.templatetags.texts import figure

READ_PROJECT: Final = "tenants:project:read"


class ProjectChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # The stub's is generic.
    """A project, named with its organization."""

    def label_from_instance(self, obj: Any) -> str:  # noqa: ANN401 - Django's signature.
        """Return both names."""
        return f"{obj.organization.name}: {obj.name}"


class BindForm(forms.Form):
    """Whose namespace it is."""

    project = ProjectChoice(
        label=gettext_lazy("Project"),
        queryset=None,
        widget=UnfoldAdminSelectWidget,
        help_text=gettext_lazy("From the first hour shown above until its next binding."),
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
        held=[held_by_size(size, held) for size, held in sums.items()],
        cost=held_cost_text(total_of(costs.costs_of(effect.uses))),
        next_steps=_next_steps(effect, project),
    )


def _next_steps(effect: BindingEffect, project: Project) -> list[str]:
    """Return what happens then; rechecks are made every five minutes, and take some more."""
    steps = []
    if effect.sealed_hours:
        text = ngettext(
            "{count} hour already sealed: metered again within about ten minutes, and billed by a "
            "correction.",
            "{count} hours already sealed: metered again within about ten minutes, and billed by "
            "a correction.",
            effect.sealed_hours,
        )
        steps.append(_counted(text, effect.sealed_hours))
    if effect.unsealed_hours:
        text = ngettext(
            "{count} hour not sealed yet: billed once sealed.",
            "{count} hours not sealed yet: billed once sealed.",
            effect.unsealed_hours,
        )
        steps.append(_counted(text, effect.unsealed_hours))
    if effect.late_hours:
        text = ngettext(
            "{count} hour too old for a recheck: it stays unbilled, and open until it is resolved.",
            "{count} hours too old for a recheck: they stay unbilled, and open until they are "
            "resolved.",
            effect.late_hours,
        )
        steps.append(_counted(text, effect.late_hours))
    bills = _bills(effect, project)
    if bills:
        text = gettext("The use appears on the {months} bill of {organization}.")
        steps.append(text.format(months=bills, organization=project.organization.name))
    return steps


def _counted(text: str, count: int) -> str:
    return text.format(count=figure(f"{count:,}"))


def held_by_size(size: str, unit_seconds: int) -> str:
    """Return what exceptions hold of one size, such as "Large 12.50"."""
    name = size.capitalize() or gettext("Size unknown")
    return f"{name} {figure(unit_hours_text(unit_seconds))}"


def held_in_units(found: MeteringException) -> str:
    """Return what one exception holds, as `held_text` does, in the language of the page."""
    seconds, details = found.held_unit_seconds, found.details
    if not seconds:
        return gettext(NOTHING_HELD)
    units = details.get("units")
    if details.get("cause") != UnsizedCause.UNKNOWN_RESOURCE or not isinstance(units, int):
        quantity = figure(unit_hours_text(seconds))
        return gettext("{quantity} unit-hours").format(quantity=quantity)
    return gettext("{units} for {hours} h, not in GPUs").format(
        units=figure(f"{units:,}"), hours=figure(unit_hours_text(seconds // max(units, 1)))
    )


def held_cost_text(total: HeldTotal) -> str:
    """Return a sum of estimated costs, such as "about 1,234.50 EUR"."""
    if not total.amounts:
        return gettext("nothing") if total.is_whole else gettext("not known: no price applies")
    amounts = " + ".join(
        figure(f"{amount:,} {currency}") for currency, amount in total.amounts.items()
    )
    if total.is_whole:
        return gettext("about {amount}").format(amount=amounts)
    return gettext("about {amount}, without what has no price").format(amount=amounts)


def _bills(effect: BindingEffect, project: Project) -> str:
    """Return the months of the bills, such as "October 2026 and November 2026"."""
    if effect.first_start is None or effect.last_start is None:
        return ""
    months = held_costs(settings.HELD_COSTS).bills_of(
        project.organization_id, first_start=effect.first_start, last_start=effect.last_start
    )
    return months_text(months)


def months_text(months: Sequence[date]) -> str:
    """Return the months of bills, such as "October 2026 and November 2026"."""
    return gettext(" and ").join(date_format(month, "F Y") for month in months)


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
    done = gettext("{namespace} belongs to {project} from that hour on.")
    return f"{done.format(namespace=found.namespace, project=project.name)} {steps}".strip()
