"""The remedy page of an exception: its evidence, and the button that settles it.

An unbound namespace is bound here, an unknown device leads to the catalogue with a rule begun, and
where two sources differ one is accepted. What stops a whole hour leads to the
decisions on it. Everything else is resolved with a reason in the list.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from metering.access import WRITE_EXCEPTION
from metering.admin.binding import (
    BindForm,
    BindingPreview,
    bind,
    bind_form,
    chosen_project,
    held_in_units,
    preview_binding,
)
from metering.admin.decision_pages import DECISION_LABELS
from metering.admin.incidents import rule_link
from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.exceptions import (
    BLOCKING_KINDS,
    SIDED_KINDS,
    WAITING_KINDS,
    ExceptionKind,
)
from metering.models import ExceptionState, MeteringException
from metering.selectors.collection.hour_decisions import decisions_for
from metering.services.corrections.exceptions import accept_side
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteForm
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, InvalidInputError
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import english, value_text, who_may_text

SIDE_WORDS: Final[Mapping[Side, str]] = {
    Side.KUBERNETES: gettext_noop("Accept the Kubernetes API's evidence"),
    Side.PROMETHEUS: gettext_noop("Accept Prometheus' evidence"),
}


class NoSideError(InvalidInputError):
    """The press of a button that names no source."""

    code = "metering_no_side"
    remedy = "Press one of the two buttons."


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
            form.add_error(None, refusal_sentence(error))
        else:
            page.message_user(request, done, messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:metering_meteringexception_changelist"))
    context = {
        **page.admin_site.each_context(request),
        "opts": page.model._meta,  # noqa: SLF001 - Django's documented model meta.
        "title": found.get_kind_display(),
        "found": found,
        "held": held_in_units(found),
        "summary": english(found.summary),
        "remedy": _remedy(found),
        "details": _labelled(found.details),
        "may_write": may_write,
        "form": form if may_write else None,
        "bind_form": form if isinstance(form, BindForm) else None,
        "preview": _preview(found, form, at=timezone.now()) if may_write else None,
        "incident_link": reverse(
            "admin:metering_meteringexception_incident", args=[found.incident]
        ),
        "who_may": who_may_text(WRITE_EXCEPTION, reach={RoleScope.PLATFORM}),
        "buttons": _buttons(found),
        "rule_link": rule_link(found.details.get("cause"), found.details.get("resource"))
        if may_write
        else "",
        "decision_links": _decision_links(found) if may_write else [],
        "window_link": _window_link(found) if found.kind in WAITING_KINDS else "",
    }
    return TemplateResponse(request, "admin/metering/meteringexception/remedy.html", context)


def _remedy(found: MeteringException) -> str:
    """Return the stored remedy in the language, or as one that is English."""
    text = gettext(found.remedy) if found.remedy else ""
    return english(text) if text == found.remedy else text


def _form(
    request: HttpRequest, found: MeteringException, *, actor: Actor
) -> BindForm | NoteForm | None:
    if found.kind == ExceptionKind.UNBOUND_NAMESPACE:
        return bind_form(request, actor=actor)
    if found.kind in SIDED_KINDS:
        return NoteForm(request.POST or None)
    return None


def _preview(
    found: MeteringException, form: BindForm | NoteForm | None, *, at: datetime
) -> BindingPreview | None:
    """Return what binding the namespace to the chosen project would do; None without one."""
    project = chosen_project(form) if isinstance(form, BindForm) else None
    return preview_binding(found, project, at=at) if project else None


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
        return bind(found, form.cleaned_data["project"], actor=actor, at=at)
    side = _side_of(pressed)
    accept_side(
        exception_id=found.pk, side=side, note=form.cleaned_data["note"], actor=actor, at=at
    )
    text = gettext("The evidence of {source} is accepted; the hour is metered with it.")
    return text.format(source=side.value.capitalize())


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
    if found.kind in SIDED_KINDS:
        return [
            {"name": "side", "value": side.value, "words": gettext(words)}
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
        (
            gettext(DECISION_LABELS[decision]),
            reverse(f"{page}{decision.value}", args=[found.window_id]),
        )
        for decision in decisions_for(found.window, at=timezone.now())
    ]


def _labelled(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the details as name and text, evidence of each source in its own rows."""
    rows: list[tuple[str, str]] = []
    for name, value in sorted(details.items()):
        if isinstance(value, dict):
            rows += [
                (f"{value_text(name)} {value_text(inner)}", str(value[inner]))
                for inner in sorted(value)
            ]
        else:
            text = json.dumps(value) if isinstance(value, list) else str(value)
            rows.append((value_text(name), text))
    return rows
