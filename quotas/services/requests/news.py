"""Requests as text for people, and notifications, written in the transaction of the event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from django.utils.formats import date_format
from django.utils.translation import gettext, override

from quotas.domain.requests.labels import money_text
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


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def in_english(call: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Return a function whose text is English, whatever the language of the page is.

    Mails and webhooks go to people whose language is not known.
    """

    @wraps(call)
    def answer(*arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        with override("en"):
            return call(*arguments, **named)

    return answer


@dataclass(frozen=True)
class Allowed:
    """Units that a holder may use at one time.

    Attributes:
        units: None when no number is set, or when it is unlimited.
        burst_units: None where burst units are not part of the request.
    """

    units: int | None
    burst_units: int | None = None
    is_unlimited: bool = False

    def __str__(self) -> str:
        """Return it as text, such as "5 and 1 burst"."""
        if self.units is None and not self.is_unlimited:
            return "not set"
        units = "unlimited" if self.is_unlimited else str(self.units)
        return units if self.burst_units is None else f"{units} and {self.burst_units} burst"


@dataclass(frozen=True)
class RequestFigures:
    """The figures of a request that its text needs.

    Attributes:
        holder: The project or user it is for, such as "LLM" or "carol in LLM".
        what: Such as "large", "large of H100" or "large of H100 on hopper".
        units: The requested total.
        units_before: The limit without it; None when unset or unlimited.
        burst_units: The requested total of burst units; None leaves them as they are.
        is_unlimited_before: Whether `units_before` is None because the limit is unlimited.
    """

    holder: str
    what: str
    units: int
    units_before: int | None
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None
    is_unlimited_before: bool = False

    @property
    def total(self) -> str:
        """What may be held in all, in short."""
        if self.burst_units is None:
            return f"{self.units} {self.what}"
        return gettext("{units} {what} and {burst} burst").format(
            units=self.units, what=self.what, burst=self.burst_units
        )

    @property
    def title(self) -> str:
        """The units asked for, and their holder."""
        return gettext("{total} for {holder}").format(total=self.total, holder=self.holder)

    @property
    def sentence(self) -> str:
        """Text of a new request: holder, total, total without it, and times."""
        if self.is_unlimited_before:
            before = gettext("now unlimited")
        elif self.units_before is None:
            before = gettext("no number is set")
        else:
            before = gettext("now {units}").format(units=self.units_before)
        return self._allowed(before)

    @property
    def sentence_approved(self) -> str:
        """Text of an approved request; the total before it is in the past tense."""
        if self.is_unlimited_before:
            before = gettext("unlimited until then")
        elif self.units_before is None:
            before = gettext("no number was set")
        else:
            before = gettext("{units} until then").format(units=self.units_before)
        return self._allowed(before)

    def _allowed(self, before: str) -> str:
        return gettext("{holder} may hold {total} in all ({before}), {span}.").format(
            holder=self.holder, total=self.total, before=before, span=self.span
        )

    @property
    def sentence_in_vain(self) -> str:
        """What would have become of a request that was not approved."""
        return gettext("{holder} would have been allowed {total} in all, {span}.").format(
            holder=self.holder, total=self.total, span=self.span
        )

    def would_be(self, *, now: Allowed) -> str:
        """Return the text of an open request's effect, compared with the current limit."""
        if now.is_unlimited:
            held = f"it is {now} now"
        elif now.units is None:
            held = "no number is set now"
        else:
            held = f"it is allowed {now} now"
        return f"Once approved, {self.holder} is allowed {self.total} in all, {self.span}; {held}."

    def was_approved(self, *, before: Allowed, now: Allowed, decided_at: datetime) -> str:
        """Return the text of an approval's effect: the units before and the units now.

        Args:
            before: Units in force when it was approved.
            now: Units in force now, later changes included.
            decided_at: UTC.
        """
        span = replace(self, begin_at=self.begin_at or decided_at).span
        return (
            f"{self.holder} was allowed {self.total} in all, {span} "
            f"(was {before} when it was approved; now {now})."
        )

    @property
    def span(self) -> str:
        """From when to when."""
        begin = gettext("from the approval on")
        if self.begin_at is not None:
            begin = gettext("from {moment}").format(moment=format_moment(self.begin_at))
        end = gettext("without end")
        if self.end_at is not None:
            end = gettext("until {moment}").format(moment=format_moment(self.end_at))
        return f"{begin}, {end}"


def format_moment(moment: datetime) -> str:
    """Return a time as text, in UTC."""
    return f"{date_format(moment, gettext('j F Y, H:i'))} UTC"


def text_of(request: QuotaRequest) -> RequestFigures:
    """Return a request as text."""
    holder, what = request.project.name, request.size
    if request.user is not None:
        holder = gettext("{person} in {project}").format(
            person=request.user.username, project=holder
        )
    if request.model_group:
        what = gettext("{size} of {model}").format(size=what, model=request.model_group)
    if request.cluster is not None:
        what = gettext("{size} on {cluster}").format(size=what, cluster=request.cluster.slug)
    return RequestFigures(
        holder=holder,
        what=what,
        units=request.requested_units,
        units_before=request.units_before,
        burst_units=request.burst_units,
        begin_at=request.begin_at,
        end_at=request.end_at,
        is_unlimited_before=request.is_unlimited_before,
    )


@in_english
def notify_deciders(request: QuotaRequest, step: RequestStep, *, at: datetime) -> None:
    """Notify those who may decide a step that it is open."""
    text = text_of(request)
    lines = [
        f"{request.requested_by.username} asks that {text.sentence}",
        "",
        f"Why: {request.justification}",
        *_cost_lines(request),
        "",
        "It waits for you: approve or reject it on its page, or over REST:",
        f"POST /api/v1/quota-requests/{request.pk}/approve/",
    ]
    if request.expires_at is not None:
        lines.append(f"Undecided, it expires on {format_moment(request.expires_at)}.")
    verb = "escalated" if step.is_raised else "submitted"
    _notify(
        request,
        verb,
        subject=f"{text.holder} asks for {text.total}",
        lines=lines,
        roles=[DECIDERS[RequestLevel(step.level)]],
        at=at,
    )


@in_english
def notify_decision(request: QuotaRequest, *, at: datetime) -> None:
    """Notify the requester of the outcome."""
    text = text_of(request)
    state = str(request.state)
    by = _decider(request)
    what = text.sentence_approved if state == "approved" else text.sentence_in_vain
    lines = [f"Your request is {state}{by}: {what}"]
    if request.decision_note:
        lines += ["", f"Note: {request.decision_note}"]
    if state == "approved":
        lines += ["", "The clusters follow within seconds."]
    if state == "expired":
        lines += ["", "Nobody decided in time. Nothing has changed; ask again if it still counts."]
    _notify(request, state, subject=f"{text.total} for {text.holder}: {state}", lines=lines, at=at)


@in_english
def notify_comment(request: QuotaRequest, *, author: str, text: str, at: datetime) -> None:
    """Notify the requester, and those who may decide the open step, of a comment."""
    about = text_of(request)
    open_step = request.steps.filter(outcome="open").first()
    _notify(
        request,
        "commented",
        subject=f"{author} on {about.total} for {about.holder}",
        lines=[f"{author} writes:", "", text],
        roles=[] if open_step is None else [DECIDERS[RequestLevel(open_step.level)]],
        at=at,
    )


@in_english
def notify_ending(grant: QuotaGrant, request: QuotaRequest, *, at: datetime) -> bool:
    """Notify the requester that a grant ends soon, once per end; return whether it was sent now."""
    text = text_of(request)
    end = format_moment(grant.valid.upper)
    lines = [
        f"{text.holder} holds {grant.units} more {text.what} than its limit until {end}.",
        _what_follows(request),
        "",
        'To keep the units, press "Renew it" on the page of the request, or ask over REST:',
        f'POST /api/v1/quota-requests/renew/ with {{"renews": "{request.pk}"}}',
    ]
    event_id = notify(
        event=ENDING,
        organization_id=request.organization_id,
        subject=f"{grant.units} {text.what} for {text.holder} end on {end}",
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


def _notify(
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
    last_label = money_text(last, currency)
    used = "" if last is None else f", {last_label} at the use of the last 30 days"
    return [f"Cost a month: {money_text(full, currency)} at full use{used}."]
