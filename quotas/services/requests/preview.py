"""Preview of requests: their effect, without making them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from quotas.domain.errors import QuotaHierarchyBrokenError
from quotas.domain.requests.routing import RequestLevel, is_automatic, route_of
from quotas.models import QuotaRequest
from quotas.protocols.costs import CostEstimator
from quotas.selectors.locks import lock_holders_of
from quotas.selectors.requests import policy_of
from quotas.services.requests.asking import (
    POLICY,
    RequestDraft,
    prepare_request,
    problems_of,
)
from quotas.services.requests.granting import as_visible_to, grant_request
from quotas.services.requests.valuation import cost_facts, estimate_cost, requested_quota_of
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem

READ: Final = "quotas:request:read"


@dataclass(frozen=True)
class Preview:
    """Effect of a request, without making it.

    Attributes:
        units_before: What holds without it; None when unset or unlimited.
        burst_before: Burst units of the limit; None when unset.
        is_unlimited_before: Whether `units_before` is None because the limit is unlimited.
        peak_units: The most it would come to at any instant of its time, other grants included.
        levels: Levels that would decide it, in order; none where the policy approves it.
        problems: Why it could not be granted as things stand, with the numbers of limits the actor
            may read; none when it could.
    """

    units_before: int | None
    burst_before: int | None
    is_unlimited_before: bool
    peak_units: int | None
    cost: dict[str, Any]
    levels: tuple[RequestLevel, ...]
    problems: tuple[FieldProblem, ...]


@transaction.atomic
def preview_request(
    *,
    draft: RequestDraft,
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> Preview:
    """Return the effect of a request: its cost, the deciding levels, and the problems.

    The check makes the change and rolls it back, so that there is only one set of rules.

    Raises:
        DomainError: As `make_request`.
    """
    request, found = prepare_request(draft, actor=actor, at=at)
    cost = estimate_cost(request, estimator, at=at)
    rules = policy_of(request.organization_id).rules
    requested_quota = requested_quota_of(
        request, found, cost, estimator=estimator, actor=actor, at=at
    )
    problems = _tried_problems(request, actor=actor, at=at)
    is_by_itself = is_automatic(rules, requested_quota) and not problems
    return Preview(
        units_before=request.units_before,
        burst_before=request.burst_before,
        is_unlimited_before=request.is_unlimited_before,
        peak_units=request.peak_units,
        cost=cost_facts(cost),
        levels=() if is_by_itself else route_of(rules, requested_quota),
        problems=problems,
    )


@transaction.atomic
def problems_in_the_way(
    *, request: QuotaRequest, actor: Actor, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return the problems of an undecided request now; nothing is written.

    Args:
        request: Which one.
        actor: The account that looks.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not read it.
    """
    require_capability(
        actor, READ, organization_id=request.organization_id, project_id=request.project_id
    )
    return _tried_problems(request, actor=actor, at=at)


def _tried_problems(
    request: QuotaRequest, *, actor: Actor, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return why a request could not be granted as things stand, as far as the actor may read it.

    What was tried is rolled back.
    """
    try:
        with transaction.atomic():
            lock_holders_of(request)
            grant_request(request, actor=POLICY, at=at)
            transaction.set_rollback(True)
    except QuotaHierarchyBrokenError as error:
        return problems_of(as_visible_to(error, request=request, actor=actor), prefix="")
    except DomainError as error:
        return problems_of(error, prefix="")
    return ()
