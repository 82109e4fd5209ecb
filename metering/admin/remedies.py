"""The remedy page of an exception: its evidence, and the button that settles it.

An unbound namespace is bound here, an unknown device leads to the catalogue with a rule begun, and
where two sources differ one is accepted. What stops a whole hour leads to the
decisions on it. Everything else is resolved with a reason in the list.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget

from metering.admin.decision_pages import DECISION_LABELS
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.exceptions import (
    BLOCKING_KINDS,
    SIDED_KINDS,
    WAITING_KINDS,
    ExceptionKind,
    held_text,
)
from metering.models import ExceptionState, MeteringException
from metering.selectors.collection.hour_decisions import decisions_for
from metering.services.corrections.exceptions import accept_side
from tenants.access import projects_visible_to
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteForm
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, InvalidInputError
from tenants.selectors.directory import namespace_directory
from tenants.services.namespaces import bind_namespace

LOOK_AHEAD: Final = timedelta(days=3650)
"""Nobody binds a namespace further ahead."""
READ_PROJECT: Final = "tenants:project:read"
SIDE_WORDS: Final[Mapping[Side, str]] = {
    Side.KUBERNETES: "Accept the Kubernetes API's evidence",
    Side.PROMETHEUS: "Accept Prometheus' evidence",
}


class NoSideError(InvalidInputError):
    """The press of a button that names no source."""

    code = "metering_no_side"
    remedy = "Press one of the two buttons."


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
        help_text="From the hour of this exception until its next binding.",
    )


def remedy_page(page: LedgerAdmin, request: HttpRequest, found: MeteringException) -> HttpResponse:
    """Show what settles an exception, and do it when its button is pressed.

    Args:
        page: The admin page of exceptions.
        request: A look, or the press of a button.
        found: The exception, with its cluster.
    """
    actor = actor_of_request(request)
    form = _form(request, found, actor=actor)
    may_write = page.has_write_permission(request) and found.state == ExceptionState.OPEN
    if request.method == "POST" and may_write and form is not None and form.is_valid():
        try:
            done = _settle(found, form, request.POST, actor=actor, at=timezone.now())
        except DomainError as error:
            form.add_error(None, f"{error.message} {error.advice}")
        else:
            page.message_user(request, done, messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:metering_meteringexception_changelist"))
    context = {
        **page.admin_site.each_context(request),
        "opts": page.model._meta,  # noqa: SLF001 - Django's documented model meta.
        "title": found.get_kind_display(),
        "found": found,
        "held": held_text(found.held_unit_seconds, details=found.details),
        "details": _labelled(found.details),
        "may_write": may_write,
        "form": form if may_write else None,
        "buttons": _buttons(found),
        "rule_link": _rule_link(found) if may_write else "",
        "decision_links": _decision_links(found) if may_write else [],
        "window_link": _window_link(found) if found.kind in WAITING_KINDS else "",
    }
    return TemplateResponse(request, "admin/metering/meteringexception/remedy.html", context)


def _form(
    request: HttpRequest, found: MeteringException, *, actor: Actor
) -> BindForm | NoteForm | None:
    if found.kind == ExceptionKind.UNBOUND_NAMESPACE:
        form = BindForm(request.POST or None)
        projects = projects_visible_to(actor, READ_PROJECT).order_by("organization__slug", "slug")
        choice = form.fields["project"]
        assert isinstance(choice, ProjectChoice)  # noqa: S101 - Narrows the type.
        choice.queryset = projects.select_related("organization")
        return form
    if found.kind in SIDED_KINDS:
        return NoteForm(request.POST or None)
    return None


def _settle(
    found: MeteringException,
    form: BindForm | NoteForm,
    pressed: Mapping[str, Any],
    *,
    actor: Actor,
    at: datetime,
) -> str:
    """Run the button's action; return the message to show."""
    if isinstance(form, BindForm):
        project = form.cleaned_data["project"]
        bind_namespace(
            cluster=found.cluster,
            namespace=found.namespace,
            project=project,
            valid_from=found.window_start,
            valid_until=_bound_from(found),
            actor=actor,
            at=at,
        )
        return (
            f"{found.namespace} belongs to {project.name} from that hour on. Sealed hours are "
            "rechecked with the next tick."
        )
    side = _side_of(pressed)
    accept_side(
        exception_id=found.pk, side=side, note=form.cleaned_data["note"], actor=actor, at=at
    )
    return f"The evidence of {side.value.capitalize()} is accepted; the hour is metered with it."


def _bound_from(found: MeteringException) -> datetime | None:
    """Return from when the namespace belongs to somebody already, after the exception's hour."""
    directory = namespace_directory(
        found.cluster_id, begin_at=found.window_start, end_at=found.window_start + LOOK_AHEAD
    )
    begins = (one.begin_at for one in directory if one.namespace == found.namespace)
    return min((begin for begin in begins if begin > found.window_start), default=None)


def _side_of(pressed: Mapping[str, Any]) -> Side:
    """Return which button was pressed.

    Raises:
        NoSideError: None of ours.
    """
    named = str(pressed.get("side", ""))
    if named not in set(Side):
        raise NoSideError("Choose whose evidence is accepted.", field="side")
    return Side(named)


def _buttons(found: MeteringException) -> list[dict[str, str]]:
    if found.kind == ExceptionKind.UNBOUND_NAMESPACE:
        return [{"name": "bind", "value": "1", "words": "Bind the namespace"}]
    if found.kind in SIDED_KINDS:
        return [
            {"name": "side", "value": side.value, "words": words}
            for side, words in SIDE_WORDS.items()
        ]
    return []


def _window_link(found: MeteringException) -> str:
    return reverse("admin:metering_meteringwindow_change", args=[found.window_id])


def _decision_links(found: MeteringException) -> list[tuple[str, str]]:
    """Return name and page of each decision that settles the exception with its whole hour."""
    if found.kind not in BLOCKING_KINDS:
        return []
    page = "admin:metering_meteringwindow_decide_"
    return [
        (DECISION_LABELS[decision], reverse(f"{page}{decision.value}", args=[found.window_id]))
        for decision in decisions_for(found.window, at=timezone.now())
    ]


def _rule_link(found: MeteringException) -> str:
    """Return the catalogue's edit page with a rule begun, where a rule is all that is missing.

    No rule can size a resource that is no GPU of ours, or a node without the labels.
    """
    if found.details.get("cause") != UnsizedCause.UNMAPPED:
        return ""
    page = reverse("admin:metering_catalogueversion_edit")
    return f"{page}?{urlencode({'resource': str(found.details.get('resource', ''))})}"


def _labelled(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the details as name and text, evidence of each source in its own rows."""
    rows: list[tuple[str, str]] = []
    for name, value in sorted(details.items()):
        if isinstance(value, dict):
            rows += [
                (f"{name} {inner}".replace("_", " "), str(value[inner])) for inner in sorted(value)
            ]
        else:
            text = json.dumps(value) if isinstance(value, list) else str(value)
            rows.append((name.replace("_", " "), text))
    return rows
