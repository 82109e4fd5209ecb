"""The table of incidents, and the page on which one is settled."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_noop, ngettext

from metering.access import READ_EXCEPTION, WRITE_EXCEPTION, access_incident, exceptions_visible_to
from metering.adapters import held_costs
from metering.admin.binding import (
    BindForm,
    bind,
    bind_form,
    chosen_project,
    held_by_size,
    held_cost_text,
    preview_binding,
)
from metering.admin.decision_pages import DECISION_LABELS, decision_page
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.collection.reconciliation import Side
from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.domain.corrections.exceptions import (
    NOTHING_HELD,
    SIDED_KINDS,
    WAITING_KINDS,
    ExceptionKind,
    remedy_of,
    unsized_sentence,
)
from metering.domain.figures import unit_hours_text
from metering.models.exception import KIND_CHOICES
from metering.protocols.held_costs import HeldCost, total_of
from metering.selectors.collection.hour_decisions import DECISIONS
from metering.selectors.corrections.incidents import (
    Incident,
    incidents_of,
    open_among,
    windows_of,
)
from metering.services.corrections.incidents import (
    RefusedException,
    SettledIncident,
    settle_incident,
)
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteForm
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, NotFoundError
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import figure, minute_text, who_may_text

LIST: Final = "admin:metering_meteringexception_changelist"
PAGE: Final = "admin:metering_meteringexception_incident"
DECIDE: Final = "admin:metering_meteringexception_incident_decide"
INCIDENTS_MAX: Final = 25
"""More than these are too many to read at once; those that stop an hour come first."""
HOURS_NAMED: Final = 5
"""Of what is refused for one reason so many hours are named; the list has them all."""
KIND_LABELS: Final = dict(KIND_CHOICES)
BUTTONS: Final[Mapping[str, tuple[str, str]]] = {
    Side.KUBERNETES: (
        gettext_noop("Accept the Kubernetes API's evidence for all"),
        gettext_noop("billed as accepted"),
    ),
    Side.PROMETHEUS: (
        gettext_noop("Accept Prometheus' evidence for all"),
        gettext_noop("billed as accepted"),
    ),
    "": (gettext_noop("Leave all unbilled"), gettext_noop("resolved, and left unbilled")),
}
"""By whose evidence is accepted: the button, and what became of each exception."""


COLUMNS: Final = (
    (gettext_noop("Cause"), False),
    (gettext_noop("About"), False),
    (gettext_noop("How many"), True),
    (gettext_noop("Held unit-hours"), True),
    (gettext_noop("Hours (UTC)"), False),
)
"""Of the table, and whether each has numbers."""


def incidents_context(actor: Actor) -> dict[str, Any]:
    """Return the template's values: one row for each open incident, most urgent first."""
    found = incidents_of(open_among(exceptions_visible_to(actor)), limit=INCIDENTS_MAX + 1)
    shown = found[:INCIDENTS_MAX]
    costs = iter(_costs(*shown))
    return {
        "overview": [_row(one, [next(costs) for _ in one.uses]) for one in shown],
        "overview_title": gettext("Open incidents"),
        "overview_columns": [(gettext(title), is_number) for title, is_number in COLUMNS],
        "overview_cut": INCIDENTS_MAX if len(found) > INCIDENTS_MAX else 0,
    }


def _costs(*incidents: Incident) -> list[HeldCost]:
    uses = [use for incident in incidents for use in incident.uses]
    return list(held_costs(settings.HELD_COSTS).costs_of(uses))


def _row(incident: Incident, costs: list[HeldCost]) -> dict[str, Any]:
    return {
        "incident": incident,
        "reason": gettext(KIND_LABELS[incident.kind]),
        "sentence": _sentence(incident),
        "about": _about(incident),
        "held": _held(incident),
        "cost": held_cost_text(total_of(costs)) if incident.uses else "",
        "remedy": gettext(remedy_of(incident.kind, cause=incident.cause)),
        "rows_link": rows_link(incident.id),
        "settle_link": reverse(PAGE, args=[incident.id]),
    }


def _sentence(incident: Incident) -> str:
    """Return why a device has no size; "" where the kind says it all."""
    known = {cause.value: cause for cause in UnsizedCause}
    return gettext(unsized_sentence(known[incident.cause])) if incident.cause in known else ""


def _about(incident: Incident) -> list[str]:
    """Return the namespace, device and node it is about."""
    named = {
        gettext("namespace"): incident.namespace,
        gettext("device"): incident.resource,
        gettext("node"): incident.node,
    }
    parts = [f"{name} {value}" for name, value in named.items() if value]
    return parts or [gettext("the whole hour")]


def _held(incident: Incident) -> list[str]:
    if not incident.is_counted_in_units:
        hours = figure(unit_hours_text(sum(part.pod_seconds for part in incident.held)))
        return [gettext("{hours} h of pods, not in GPUs").format(hours=hours)]
    return [held_by_size(part.size, part.unit_seconds) for part in incident.held] or [
        gettext(NOTHING_HELD)
    ]


def rows_link(incident_id: UUID) -> str:
    """Return the list of the open exceptions of an incident."""
    query = {"state__exact": "open", "incident__exact": str(incident_id)}
    return f"{reverse(LIST)}?{urlencode(query)}"


def incident_page(page: LedgerAdmin, request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Show what is open of an incident and what settles it, and settle it.

    Args:
        page: The admin page of exceptions.
        request: A look, or the press of a button.
        incident_id: Which incident.
    """
    actor, at = actor_of_request(request), timezone.now()
    try:
        rows = access_incident(actor, incident_id, READ_EXCEPTION)
    except NotFoundError as error:
        raise Http404 from error
    found = incidents_of(open_among(rows))
    if not found:
        text = gettext("Nothing of this incident is open any more.")
        page.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse(LIST))
    incident = found[0]
    may_write = page.has_write_permission(request)
    oldest = rows.select_related("cluster").get(pk=incident.oldest_id)
    is_unbound = incident.kind == ExceptionKind.UNBOUND_NAMESPACE
    bound = bind_form(request, actor=actor) if is_unbound else None
    note = NoteForm(request.POST if "settle" in request.POST else None)
    if request.method == "POST" and may_write:
        done = _press(page, request, incident, bound=bound, note=note)
        if done is not None:
            return done
    project = chosen_project(bound) if bound else None
    context = {
        **page.page_context(request, title=gettext(KIND_LABELS[incident.kind])),
        **_row(incident, _costs(incident)),
        "may_write": may_write,
        "who_may": who_may_text(WRITE_EXCEPTION, reach={RoleScope.PLATFORM}),
        "bind_form": bound,
        "preview": preview_binding(oldest, project, at=at) if project else None,
        "note": note,
        "buttons": _buttons(incident),
        "rule_link": rule_link(incident.cause, incident.resource),
        "decision_links": _decision_links(incident),
    }
    return TemplateResponse(request, "admin/metering/meteringexception/incident.html", context)


def _press(
    page: LedgerAdmin,
    request: HttpRequest,
    incident: Incident,
    *,
    bound: BindForm | None,
    note: NoteForm,
) -> HttpResponse | None:
    """Run the action of the pressed button; None when the page shows what is wrong."""
    actor, at = actor_of_request(request), timezone.now()
    rows = access_incident(actor, incident.id, WRITE_EXCEPTION)
    form = note if "settle" in request.POST else bound
    if form is None or not form.is_valid():
        return None
    try:
        if isinstance(form, BindForm):
            oldest = rows.select_related("cluster").get(pk=incident.oldest_id)
            done = bind(oldest, form.cleaned_data["project"], actor=actor, at=at)
            page.message_user(request, done, messages.SUCCESS)
            return HttpResponseRedirect(reverse(LIST))
        pressed = str(request.POST["settle"])
        side = Side(pressed) if pressed in set(Side) else None
        settled = settle_incident(
            exceptions=rows,
            note=form.cleaned_data["note"],
            side=side,
            actor=actor,
            at=at,
            policy=MeteringPolicy(recheck_retention_seconds=settings.RECHECK_RETENTION_SECONDS),
        )
    except DomainError as error:
        form.add_error(None, refusal_sentence(error))
        return None
    _report(page, request, settled, done=BUTTONS[side or ""][1])
    return HttpResponseRedirect(reverse(PAGE, args=[incident.id]))


def _report(
    page: LedgerAdmin, request: HttpRequest, settled: SettledIncident, *, done: str
) -> None:
    """Show how many exceptions were settled, and the reason of each that was not."""
    count, total = settled.settled, figure(f"{settled.settled:,}")
    text = ngettext("{count} exception is {done}.", "{count} exceptions are {done}.", count)
    text = text.format(count=total, done=gettext(done))
    page.message_user(request, text, messages.SUCCESS)
    by_reason: dict[str, list[RefusedException]] = defaultdict(list)
    for one in settled.refused:
        by_reason[refusal_sentence(one.refusal)].append(one)
    for reason, refused in by_reason.items():
        hours = [minute_text(one.window_start) for one in refused[:HOURS_NAMED]]
        if len(refused) > HOURS_NAMED:
            hours.append(gettext("{count} more").format(count=len(refused) - HOURS_NAMED))
        text = format_html(
            gettext("{count} refused: {reason} Hours (UTC): {hours}."),
            count=figure(f"{len(refused):,}"),
            reason=reason,
            hours=", ".join(hours),
        )
        page.message_user(request, text, messages.ERROR)
    if settled.left:
        text = gettext("{count} more are open; press again for the next.").format(
            count=figure(f"{settled.left:,}")
        )
        page.message_user(request, text, messages.WARNING)


def _buttons(incident: Incident) -> list[dict[str, str]]:
    """Return the buttons that settle all exceptions one by one; none where hours are decided on."""
    if incident.kind in WAITING_KINDS:
        return []
    sides = [*Side, ""] if incident.kind in SIDED_KINDS else [""]
    return [{"value": side or "unbilled", "label": gettext(BUTTONS[side][0])} for side in sides]


def rule_link(cause: object, resource: object) -> str:
    """Return the catalogue's edit page with a rule begun, where a rule is all that is missing.

    No rule can size a resource that is no GPU of ours, or a node without the labels.
    """
    if cause != UnsizedCause.UNMAPPED:
        return ""
    page = reverse("admin:metering_catalogueversion_edit")
    return f"{page}?{urlencode({'resource': str(resource or '')})}"


def _decision_links(incident: Incident) -> list[tuple[str, str]]:
    """Return name and page of each decision on all the hours of an incident."""
    if incident.kind not in WAITING_KINDS:
        return []
    return [
        (gettext(DECISION_LABELS[decision]), reverse(DECIDE, args=[incident.id, decision.value]))
        for decision in DECISIONS
    ]


def decide_incident(
    page: LedgerAdmin, request: HttpRequest, incident_id: UUID, decision: str
) -> HttpResponse:
    """Show what a decision on all the hours of an incident would do; make it once confirmed."""
    if decision not in set(DECISIONS):
        raise Http404
    try:
        rows = access_incident(actor_of_request(request), incident_id, WRITE_EXCEPTION)
    except NotFoundError as error:
        raise Http404 from error
    hours = windows_of(open_among(rows))
    shown = decision_page(page, request, hours, decision=GapPolicy(decision))
    return shown or HttpResponseRedirect(reverse(PAGE, args=[incident_id]))
