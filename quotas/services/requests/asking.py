"""Submit quota requests, one or several at once, extend what was approved, and comment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from quotas.domain.errors import QuotaBulkRefusedError, QuotaRequestNotRenewableError
from quotas.domain.limits.input import NOTE_LENGTH_MAX, refuse_problems, text_problems
from quotas.domain.requests.input import RequestInput
from quotas.domain.requests.routing import RequestMove, is_automatic, route_of
from quotas.models import QuotaRequest, RequestComment, RequestState
from quotas.protocols.costs import CostEstimator
from quotas.selectors.limits.limits import unknown_group_problems
from quotas.selectors.locks import lock_holders_of, lock_limit_path, lock_request
from quotas.selectors.requests import PolicyInForce, policy_of
from quotas.services.requests.deciding import (
    DECIDE,
    FUND,
    REVIEW,
    SUBMIT,
    finish,
    make_steps,
    moves,
    person_of,
    record_request,
)
from quotas.services.requests.granting import Before, before, grant_request, note_before
from quotas.services.requests.news import notify_comment
from quotas.services.requests.valuation import cost_facts, estimate_cost, requested_quota_of
from tenants.access import require_capability
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import DomainError, FieldProblem, NotFoundError
from tenants.domain.refusals import ClusterClosedError, ProjectClosedError
from tenants.models import Cluster, Project
from tenants.models.organization import LifecycleState

POLICY: Final = system_actor("quotas.request_policy")


@dataclass(frozen=True)
class RequestDraft:
    """A new request.

    Attributes:
        user: The user of the project who gets the units; None for the whole project.
        requested_units: The requested total, never the difference.
    """

    project: Project
    size: str
    requested_units: int
    justification: str
    user: User | None = None
    model_group: str = ""
    cluster: Cluster | None = None
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None
    renews: QuotaRequest | None = None
    supersedes: QuotaRequest | None = None


@transaction.atomic
def make_request(
    *,
    draft: RequestDraft,
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaRequest:
    """Make a request. Nothing is granted, unless the policy approves it automatically.

    Args:
        draft: The request.
        estimator: Source of prices; None without one.
        actor: The account that asks.
        at: When, UTC.

    Raises:
        QuotaInputError: A field is not valid; every problem is reported.
        ForbiddenError: The actor may not ask for this project.
        PersonRequiredError: The actor is not a person.
        ProjectClosedError: The project is closed.
        ClusterClosedError: The cluster is closed.
        QuotaRequestWithoutLimitError: Units for a time are requested where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
        QuotaRequestDecidedError: The request this one replaces is decided.
        NotFoundError: The replaced request is not of the project.
    """
    request, found = prepare_request(draft, actor=actor, at=at)
    policy = policy_of(request.organization_id)
    cost = estimate_cost(request, estimator, at=at)
    request.cost = cost_facts(cost)
    request.expires_at = _expiry(request, policy, at=at)
    request.save(force_insert=True)
    record_request(request, "submit", actor=actor, at=at)
    if draft.supersedes is not None:
        _supersede(draft.supersedes, request, actor=actor, at=at)
    requested_quota = requested_quota_of(
        request, found, cost, estimator=estimator, actor=actor, at=at
    )
    if is_automatic(policy.rules, requested_quota) and _approve_by_policy(request, at=at):
        return request
    levels = route_of(policy.rules, requested_quota)
    make_steps(request, levels, escalate_after=policy.escalate_after, at=at)
    return request


def is_renewable(request: QuotaRequest) -> bool:
    """Whether it was approved until a time."""
    return request.state == RequestState.APPROVED and request.end_at is not None


@transaction.atomic
def renew_request(  # noqa: PLR0913 - The changed fields; all are keyword only.
    *,
    request: QuotaRequest,
    end_at: datetime | None,
    justification: str,
    requested_units: int | None = None,
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaRequest:
    """Request an extension of what was approved for a time.

    Args:
        request: What was approved.
        end_at: The new end; None is without end.
        justification: Why.
        requested_units: The wanted total from then on; None is as before.
        estimator: Source of prices; None without one.
        actor: The account that asks.
        at: When, UTC.

    Raises:
        QuotaRequestNotRenewableError: It was not approved, or has no end.
        DomainError: As `make_request`.
    """
    if request.end_at is None or not is_renewable(request):
        raise QuotaRequestNotRenewableError("Only what was approved until a time can be renewed.")
    draft = RequestDraft(
        project=request.project,
        user=request.user,
        size=request.size,
        model_group=request.model_group,
        cluster=request.cluster,
        requested_units=request.requested_units if requested_units is None else requested_units,
        begin_at=request.end_at if request.end_at > at else None,
        end_at=end_at,
        justification=justification,
        renews=request,
    )
    return make_request(draft=draft, estimator=estimator, actor=actor, at=at)


def prepare_request(
    draft: RequestDraft, *, actor: Actor, at: datetime
) -> tuple[QuotaRequest, Before]:
    """Return a request that could be saved, and what holds without it; its project is locked.

    Raises:
        DomainError: As `make_request`.
    """
    _refuse_input(draft, at=at)
    project = draft.project
    require_capability(
        actor, SUBMIT, organization_id=project.organization_id, project_id=project.pk
    )
    person_id = person_of(actor=actor)
    lock_limit_path(organization_id=project.organization_id, project_id=project.pk, user_id=None)
    _refuse_closed(draft)
    request = QuotaRequest(
        organization_id=project.organization_id,
        project=project,
        user=draft.user,
        size=draft.size,
        model_group=draft.model_group,
        cluster=draft.cluster,
        requested_units=draft.requested_units,
        burst_units=draft.burst_units,
        begin_at=draft.begin_at,
        end_at=draft.end_at,
        justification=draft.justification,
        renews=draft.renews,
        supersedes=draft.supersedes,
        requested_by_id=person_id,
        created_at=at,
    )
    found = before(request, at=at)
    note_before(request, found)
    return request, found


def _refuse_input(draft: RequestDraft, *, at: datetime) -> None:
    asked = RequestInput(
        size=draft.size,
        requested_units=draft.requested_units,
        justification=draft.justification,
        model_group=draft.model_group,
        burst_units=draft.burst_units,
        begin_at=draft.begin_at,
        end_at=draft.end_at,
    )
    refuse_problems(asked.problems(at=at))
    refuse_problems(unknown_group_problems(draft.model_group))


def _refuse_closed(draft: RequestDraft) -> None:
    project = draft.project
    if not Project.objects.filter(pk=project.pk, state=LifecycleState.ACTIVE).exists():
        raise ProjectClosedError(f"{project.name} is closed.", field="project")
    if draft.cluster is not None and draft.cluster.state == LifecycleState.CLOSED:
        raise ClusterClosedError(f"{draft.cluster.name} is closed.", field="cluster")


def _expiry(request: QuotaRequest, policy: PolicyInForce, *, at: datetime) -> datetime:
    last = at + policy.expire_after
    return last if request.end_at is None else min(last, request.end_at)


def _supersede(old: QuotaRequest, new: QuotaRequest, *, actor: Actor, at: datetime) -> None:
    """Withdraw the request that a new one of the same project replaces."""
    locked = lock_request(old.pk)
    if locked is None or locked.project_id != new.project_id:
        raise NotFoundError("There is no such quota request in the project.", field="supersedes")
    if moves(locked, RequestMove.CANCEL):
        finish(locked, RequestMove.CANCEL, note="Asked anew.", actor=actor, at=at)


def _approve_by_policy(request: QuotaRequest, *, at: datetime) -> bool:
    """Approve a request that the policy approves automatically; False leaves it to people.

    A request that would break the tree of limits is left to people, who may change other limits.
    """
    try:
        with transaction.atomic():
            lock_holders_of(request)
            grant_request(request, actor=POLICY, at=at)
            request.is_automatic = True
            finish(request, RequestMove.APPROVE, note="Within policy.", actor=POLICY, at=at)
    except DomainError:
        request.refresh_from_db()
        return False
    return True


BULK_MAX: Final = 100
"""As many as a person reads before sending; one transaction holds the organization's lock."""


@transaction.atomic
def make_requests(
    *,
    drafts: Sequence[RequestDraft],
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> tuple[QuotaRequest, ...]:
    """Make several requests in one transaction: all or none.

    Raises:
        QuotaBulkRefusedError: At least one is not valid; every problem is reported with its index.
    """
    made: list[QuotaRequest] = []
    problems: list[FieldProblem] = []
    if not 1 <= len(drafts) <= BULK_MAX:
        message = f"Send 1 to {BULK_MAX} requests."
        raise QuotaBulkRefusedError(
            message, problems=(FieldProblem("requests", "count_invalid", message),)
        )
    for position, draft in enumerate(drafts):
        try:
            with transaction.atomic():
                made.append(make_request(draft=draft, estimator=estimator, actor=actor, at=at))
        except DomainError as error:
            problems += problems_of(error, prefix=f"requests.{position}")
    if problems:
        raise QuotaBulkRefusedError(
            f"{len(drafts) - len(made)} of {len(drafts)} requests cannot be made; none was.",
            field=problems[0].field,
            problems=tuple(problems),
        )
    return tuple(made)


def problems_of(error: DomainError, *, prefix: str) -> tuple[FieldProblem, ...]:
    """Return a refusal's problems, each field below a prefix; "" for none."""
    found = error.problems or (
        FieldProblem(error.field, error.code, f"{error.message} {error.advice}".strip()),
    )
    return tuple(
        replace(one, field=".".join(part for part in (prefix, one.field) if part)) for one in found
    )


@transaction.atomic
def comment_request(*, request_id: UUID, text: str, actor: Actor, at: datetime) -> RequestComment:
    """Add a comment to a request; open to actors who may request for the project or decide.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The text is empty or cannot be kept.
        ForbiddenError: The actor may neither request nor decide.
        PersonRequiredError: The actor is not a person.
    """
    refuse_problems(text_problems(text, field="text", length_max=NOTE_LENGTH_MAX))
    request = lock_request(request_id)
    if request is None:
        raise NotFoundError("There is no such quota request.")
    if not may_comment(request, actor=actor):
        require_capability(actor, SUBMIT, **_scope_of(request))
    comment = RequestComment.objects.create(
        request=request, author_id=person_of(actor=actor), text=text, created_at=at
    )
    record_request(request, "comment", actor=actor, at=at)
    notify_comment(request, author=comment.author.username, text=text, at=at)
    return comment


def may_comment(request: QuotaRequest, *, actor: Actor) -> bool:
    """Whether an actor may request for the project, or decides there at some level."""
    place = _scope_of(request)
    return any(actor.may(held, **place) for held in (REVIEW, DECIDE, FUND, SUBMIT))


def _scope_of(request: QuotaRequest) -> dict[str, UUID]:
    return {"organization_id": request.organization_id, "project_id": request.project_id}
