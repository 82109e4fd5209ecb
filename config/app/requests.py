"""Pages of quota requests: list, ask, follow, withdraw, comment, and decide."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from config.app.frame import render_page, shown_organizations, tenant_page
from config.app.labels import time_text, word
from config.app.request_form import (
    RENEWS,
    RequestForm,
    cost_text,
    read_form,
    renew,
    send_request,
    show_headroom,
    show_preview,
)
from metering.domain.catalogue.units import GPUSize
from quotas.access import (
    READ_REQUEST,
    SUBMIT_REQUEST,
    access_request,
    access_request_to_decide,
    is_cost_visible,
    requests_visible_to,
)
from quotas.models import QuotaRequest, RequestState, StepOutcome
from quotas.services.requests.asking import comment_request, is_renewable, may_comment
from quotas.services.requests.deciding import (
    approve_request,
    cancel_request,
    may_decide,
    reject_request,
)
from quotas.services.requests.news import text_of
from tenants.access import projects_visible_to
from tenants.admin.base import actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.identity.granting import forbidden

REQUESTS_SHOWN: Final = 100
"""The API has all."""
PROJECTS_MAX: Final = 300
"""To choose from."""


@tenant_page
@require_safe
def quota_requests(request: HttpRequest) -> HttpResponse:
    """List the requests that the person reads, the newest first."""
    actor = actor_of_request(request)
    scope = shown_organizations(request, actor)
    rows = requests_visible_to(actor).prefetch_related(None).order_by("-created_at", "-pk")
    if scope.chosen is not None:
        rows = rows.filter(organization=scope.chosen)
    context = {
        "scope": scope,
        "requests": [(one, text_of(one), word(one.state)) for one in rows[:REQUESTS_SHOWN]],
        "may_ask": bool(actor.grants_for(SUBMIT_REQUEST)),
    }
    return render_page(
        request,
        "app/requests.html",
        context,
        title=gettext("Quota requests"),
        twin="/api/v1/quota-requests/",
    )


@tenant_page
@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """Show the form with headroom and price; its button "Send the request" makes the request.

    Whatever else is posted, as the browser does when a field changes, is only shown. Such a part of
    the page makes nothing, even where the button is named: htmx adds the one that has the focus. It
    answers 200 also where it is refused: htmx shows no answer of another status.
    """
    actor, at = actor_of_request(request), timezone.now()
    if not actor.grants_for(SUBMIT_REQUEST):
        raise forbidden(SUBMIT_REQUEST)
    given = request.POST if request.method == "POST" else request.GET
    form = read_form(given)
    if given.get(RENEWS):
        renew(form, access_request(actor, _id_of(given[RENEWS]), SUBMIT_REQUEST), at=at)
    is_part = "HX-Request" in request.headers
    step = "preview" if is_part else request.POST.get("step", "")
    if step == "send":
        made = send_request(form, request, actor=actor, at=at)
        if made is not None:
            messages.success(request, gettext("The request is sent."))
            return redirect("app_request", request_id=made)
    elif step == "preview" or (form.typed["requested_units"] and (form.renewed or request.POST)):
        show_preview(form, actor=actor, at=at)
    show_headroom(form, actor=actor, at=at)
    return _form_page(request, form, actor, is_part=is_part)


def _id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError(gettext("There is no such quota request.")) from None


def _form_page(
    request: HttpRequest, form: RequestForm, actor: Actor, *, is_part: bool
) -> HttpResponse:
    projects = projects_visible_to(actor, SUBMIT_REQUEST).select_related("organization")
    context = {
        "form": form,
        "is_part": is_part,
        "projects": projects.order_by("organization__name", "name")[:PROJECTS_MAX],
        "sizes": [(size.value, size.value.capitalize()) for size in GPUSize],
        "levels": [] if form.preview is None else [word(one) for one in form.preview.levels],
        "renewed": None if form.renewed is None else text_of(form.renewed),
        "renewed_until": "" if form.renewed is None else time_text(form.renewed.end_at),
    }
    return render_page(
        request,
        "app/request_new.html",
        context,
        title=gettext("Ask for quota") if form.renewed is None else gettext("Renew quota"),
        twin="/api/v1/quota-requests/",
        status=200 if is_part else form.status,
    )


@dataclass(frozen=True)
class ThreadEntry:
    """One event of a request: the person, the action, and the text with it."""

    at: datetime
    person: str
    action: str
    text: str = ""


@tenant_page
@require_safe
def quota_request(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Show a request: what it would mean, its state, its deciders, and its thread."""
    actor = actor_of_request(request)
    found = access_request(actor, request_id, READ_REQUEST)
    held = {"organization_id": found.organization_id, "project_id": found.project_id}
    is_open = found.state == RequestState.SUBMITTED
    words = text_of(found)
    sentence = {
        RequestState.SUBMITTED: words.sentence,
        RequestState.APPROVED: words.sentence_approved,
    }.get(RequestState(found.state), words.sentence_in_vain)
    context = {
        "asked": found,
        "sentence": sentence,
        "state": word(found.state),
        "is_open": is_open,
        "expires": time_text(found.expires_at),
        "steps": [_step(step) for step in found.steps.all()],
        "thread": _thread(found),
        "cost": cost_text(found.cost) if found.cost and is_cost_visible(actor, **held) else None,
        "may_renew": is_renewable(found) and actor.may(SUBMIT_REQUEST, **held),
        "may_withdraw": is_open and actor.may(SUBMIT_REQUEST, **held),
        "may_comment": may_comment(found, actor=actor),
        "may_decide": is_open and may_decide(found, actor=actor),
    }
    return render_page(
        request,
        "app/request.html",
        context,
        title=words.title,
        twin=f"/api/v1/quota-requests/{found.pk}/",
    )


def _withdraw(actor: Actor, request_id: UUID, text: str, at: datetime) -> None:
    found = access_request(actor, request_id, SUBMIT_REQUEST)
    cancel_request(request_id=found.pk, note=text, actor=actor, at=at)


def _comment(actor: Actor, request_id: UUID, text: str, at: datetime) -> None:
    found = access_request(actor, request_id, READ_REQUEST)
    comment_request(request_id=found.pk, text=text, actor=actor, at=at)


def _approve(actor: Actor, request_id: UUID, text: str, at: datetime) -> None:
    found = access_request_to_decide(actor, request_id)
    approve_request(request_id=found.pk, note=text, actor=actor, at=at)


def _reject(actor: Actor, request_id: UUID, text: str, at: datetime) -> None:
    found = access_request_to_decide(actor, request_id)
    reject_request(request_id=found.pk, note=text, actor=actor, at=at)


VERBS: Final[dict[str, tuple[Callable[[Actor, UUID, str, datetime], None], str]]] = {
    "withdraw": (_withdraw, gettext_noop("The request is withdrawn.")),
    "comment": (_comment, gettext_noop("The comment is added.")),
    "approve": (_approve, gettext_noop("The request is approved at your level.")),
    "reject": (_reject, gettext_noop("The request is rejected.")),
}
"""By the last part of the address: what a button does, and what is shown afterwards."""


@tenant_page
def act(request: HttpRequest, request_id: UUID, verb: str) -> HttpResponse:
    """Do what a button of the page says, and show the request again; a GET only shows it."""
    if verb not in VERBS:
        raise Http404
    if request.method != "POST":
        return redirect("app_request", request_id=request_id)
    perform, done = VERBS[verb]
    perform(actor_of_request(request), request_id, request.POST.get("text", ""), timezone.now())
    messages.success(request, gettext(done))
    return redirect("app_request", request_id=request_id)


def _step(step: Any) -> dict[str, str]:  # noqa: ANN401 - A row with its decider.
    return {
        "level": word(step.level),
        "outcome": word(step.outcome),
        "person": "" if step.decided_by is None else step.decided_by.username,
        "takes_over": time_text(step.escalates_at) if step.escalates_at else "",
        "tone": {
            StepOutcome.APPROVED: "good",
            StepOutcome.REJECTED: "bad",
            StepOutcome.OPEN: "wait",
        }.get(step.outcome, ""),
    }


def _thread(found: QuotaRequest) -> list[ThreadEntry]:
    """Return what happened, in its order."""
    entries = [
        ThreadEntry(
            found.created_at, found.requested_by.username, word("asked"), found.justification
        )
    ]
    entries += [
        ThreadEntry(step.decided_at, step.decided_by.username, word(step.outcome), step.note)
        for step in found.steps.all()
        if step.decided_at is not None and step.decided_by is not None
    ]
    entries += [
        ThreadEntry(comment.created_at, comment.author.username, word("commented"), comment.text)
        for comment in found.comments.all()
    ]
    is_by_step = any(entry.at == found.decided_at for entry in entries)
    if found.decided_at is not None and not is_by_step:
        person = gettext("The policy") if found.decided_by is None else found.decided_by.username
        entries.append(
            ThreadEntry(found.decided_at, person, word(found.state), found.decision_note)
        )
    return sorted(entries, key=lambda entry: entry.at)
