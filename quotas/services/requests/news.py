"""Notifications about requests, written in the transaction of the event."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from quotas.domain.requests.labels import RequestFigures, format_moment, money_text
from quotas.domain.requests.routing import RequestLevel
from quotas.models import (
    PreemptionMode,
    PreemptionPolicy,
    QuotaGrant,
    QuotaRequest,
    RequestStep,
)
from quotas.selectors.requests import ENDING, ending_key
from tenants.domain.identity.roles import Role
from tenants.services.notifications.outbox import notify

DECIDERS: Final[Mapping[RequestLevel, Role]] = {
    RequestLevel.PROJECT_LEAD: Role.PROJECT_LEAD,
    RequestLevel.ORGANIZATION_ADMIN: Role.ORGANIZATION_ADMIN,
    RequestLevel.PLATFORM: Role.PLATFORM_ADMIN,
    RequestLevel.FINANCE: Role.FINANCE_ADMIN,
}


def text_of(request: QuotaRequest) -> RequestFigures:
    """Return a request as text."""
    project = request.project.name
    group = f" of {request.model_group}" if request.model_group else ""
    place = "" if request.cluster is None else f" on {request.cluster.slug}"
    return RequestFigures(
        holder=project if request.user is None else f"{request.user.username} in {project}",
        what=f"{request.size}{group}{place}",
        units=request.requested_units,
        units_before=request.units_before,
        burst_units=request.burst_units,
        begin_at=request.begin_at,
        end_at=request.end_at,
        is_unlimited_before=request.is_unlimited_before,
    )


def tell_turn(request: QuotaRequest, step: RequestStep, *, at: datetime) -> None:
    """Notify those who may decide a step that it is open."""
    words = text_of(request)
    lines = [
        f"{request.requested_by.username} asks that {words.sentence}",
        "",
        f"Why: {request.justification}",
        *_cost_lines(request),
        "",
        "It waits for you: approve or reject it in the admin under Quotas, Requests, or over REST:",
        f"POST /api/v1/quota-requests/{request.pk}/approve/",
    ]
    if request.expires_at is not None:
        lines.append(f"Undecided, it expires on {format_moment(request.expires_at)}.")
    verb = "escalated" if step.is_raised else "submitted"
    _tell(
        request,
        verb,
        subject=f"{words.holder} asks for {words.total}",
        lines=lines,
        roles=[DECIDERS[RequestLevel(step.level)]],
        at=at,
    )


def tell_decided(request: QuotaRequest, *, at: datetime) -> None:
    """Notify the requester of the outcome."""
    words = text_of(request)
    state = str(request.state)
    by = _decider(request)
    what = words.sentence_approved if state == "approved" else words.sentence_in_vain
    lines = [f"Your request is {state}{by}: {what}"]
    if request.decision_note:
        lines += ["", f"Note: {request.decision_note}"]
    if state == "approved":
        lines += ["", "The clusters follow within seconds."]
    if state == "expired":
        lines += ["", "Nobody decided in time. Nothing has changed; ask again if it still counts."]
    _tell(request, state, subject=f"{words.total} for {words.holder}: {state}", lines=lines, at=at)


def tell_comment(request: QuotaRequest, *, author: str, text: str, at: datetime) -> None:
    """Notify the requester, and those who may decide the open step, of a comment."""
    words = text_of(request)
    open_step = request.steps.filter(outcome="open").first()
    _tell(
        request,
        "commented",
        subject=f"{author} on {words.total} for {words.holder}",
        lines=[f"{author} writes:", "", text],
        roles=[] if open_step is None else [DECIDERS[RequestLevel(open_step.level)]],
        at=at,
    )


def tell_ending(grant: QuotaGrant, request: QuotaRequest, *, at: datetime) -> bool:
    """Notify the requester that a grant ends soon, once per end; return whether it was sent now."""
    words = text_of(request)
    end = format_moment(grant.valid.upper)
    lines = [
        f"{words.holder} holds {grant.units} more {words.what} than its limit until {end}.",
        _what_follows(request),
        "",
        "To keep the units, ask to renew them:",
        f'POST /api/v1/quota-requests/renew/ with {{"renews": "{request.pk}"}}',
    ]
    event_id = notify(
        event=ENDING,
        organization_id=request.organization_id,
        subject=f"{grant.units} {words.what} for {words.holder} end on {end}",
        text="\n".join(lines),
        facts={"request": str(request.pk), "grant": str(grant.pk), "units": grant.units},
        usernames=[request.requested_by.username],
        project_ids=[request.project_id],
        key=ending_key(grant),
        at=at,
    )
    return event_id is not None


def _what_follows(request: QuotaRequest) -> str:
    """Say what becomes of pods that hold the units then: as the organization's policy has it."""
    policy = PreemptionPolicy.objects.filter(organization_id=request.organization_id).first()
    mode = PreemptionMode.PROPOSE if policy is None else policy.mode
    if mode == PreemptionMode.EXECUTE:
        return (
            "After that new pods wait, and running ones that are over the limit are ended after a "
            "time of grace."
        )
    if mode == PreemptionMode.PROPOSE:
        return (
            "After that new pods wait. Running ones keep running until an administrator ends those "
            "that are over the limit."
        )
    return "After that pods that are running keep running, and new ones wait."


def _tell(
    request: QuotaRequest,
    verb: str,
    *,
    subject: str,
    lines: list[str],
    roles: list[Role] | None = None,
    at: datetime,
) -> None:
    notify(
        event=f"quotas:request:{verb}",
        organization_id=request.organization_id,
        subject=subject,
        text="\n".join(lines),
        facts={
            "request": str(request.pk),
            "project": request.project.slug,
            "size": request.size,
            "requested_units": request.requested_units,
            "state": str(request.state),
        },
        usernames=[] if verb in {"submitted", "escalated"} else [request.requested_by.username],
        roles=roles or (),
        project_ids=[request.project_id],
        at=at,
    )


def _decider(request: QuotaRequest) -> str:
    if request.is_automatic:
        return " by your organization's policy"
    return "" if request.decided_by is None else f" by {request.decided_by.username}"


def _cost_lines(request: QuotaRequest) -> list[str]:
    full, last = request.cost.get("at_full_use"), request.cost.get("at_last_use")
    if full is None:
        return [f"Cost: {request.cost['note']}"] if request.cost.get("note") else []
    currency = request.cost["currency"]
    last_text = money_text(last, currency)
    used = "" if last is None else f", {last_text} at the use of the last 30 days"
    return [f"Cost a month: {money_text(full, currency)} at full use{used}."]
