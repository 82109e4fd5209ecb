"""Requests: what policy routes them, what is in force where they ask, and what is due by time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.routing import RequestLevel, RoutingRules, StepRule
from quotas.models import (
    GrantReason,
    QuotaGrant,
    QuotaRequest,
    RequestPolicy,
    RequestState,
    RequestStep,
    StepOutcome,
)

REMIND_DAYS_MAX: Final = 90
"""No policy reminds earlier; keeps what a tick looks through short."""


@dataclass(frozen=True)
class PolicyInForce:
    """The policy of an organization: its own, the platform's, or what holds without any.

    Attributes:
        policy_id: None when nobody wrote one.
        escalate_after: None for never.
    """

    policy_id: UUID | None = None
    rules: RoutingRules = field(default_factory=RoutingRules)
    escalate_after: timedelta | None = None
    expire_after: timedelta = timedelta(days=30)
    remind_before: timedelta = timedelta(days=7)


def policy_of(organization_id: UUID) -> PolicyInForce:
    """Return the policy that routes the requests of an organization; one statement."""
    policies = policies_of()
    return policies.get(organization_id) or policies.get(None) or PolicyInForce()


def policies_of() -> dict[UUID | None, PolicyInForce]:
    """Return every policy by organization; None is the platform's own; one statement."""
    return {row.organization_id: _in_force(row) for row in RequestPolicy.objects.all()}


def expired_request_ids(*, at: datetime, limit: int) -> list[UUID]:
    """Return the undecided requests whose time is over, oldest first."""
    rows = QuotaRequest.objects.filter(state=RequestState.SUBMITTED, expires_at__lte=at)
    return list(rows.order_by("expires_at", "pk").values_list("pk", flat=True)[:limit])


def silent_request_ids(*, at: datetime, limit: int) -> list[UUID]:
    """Return the requests whose open step nobody answered in time, longest silent first."""
    rows = RequestStep.objects.filter(
        outcome=StepOutcome.OPEN, escalates_at__lte=at, request__state=RequestState.SUBMITTED
    )
    return list(rows.order_by("escalates_at", "pk").values_list("request_id", flat=True)[:limit])


def ending_grants(*, at: datetime, limit: int) -> list[tuple[QuotaGrant, QuotaRequest]]:
    """Return grants of requests that end within their policy's days, with the request, by end.

    Those that somebody asked to renew are left out. Three statements.
    """
    policies = policies_of()
    default = policies.get(None) or PolicyInForce()
    grants = QuotaGrant.objects.filter(
        Q(valid__endswith__gt=at, valid__endswith__lte=at + timedelta(days=REMIND_DAYS_MAX)),
        reason=GrantReason.REQUEST,
    ).order_by("valid__endswith", "pk")[:limit]
    due = [
        grant
        for grant in grants
        if grant.valid.upper - at <= (policies.get(grant.organization_id) or default).remind_before
    ]
    requests = (
        QuotaRequest.objects.filter(pk__in=[grant.reference for grant in due])
        .exclude(renewals__state__in=[RequestState.SUBMITTED, RequestState.APPROVED])
        .select_related("project", "user", "cluster", "requested_by")
        .in_bulk()
    )
    return [
        (grant, requests[UUID(grant.reference)])
        for grant in due
        if UUID(grant.reference) in requests
    ]


def _in_force(row: RequestPolicy) -> PolicyInForce:
    hours = row.escalate_after_hours
    return PolicyInForce(
        policy_id=row.pk,
        rules=RoutingRules(
            steps=tuple(_rule(step) for step in row.steps),
            currency=row.currency,
            automatic_units=_by_size(row.automatic_units),
            automatic_cost=row.automatic_cost,
        ),
        escalate_after=None if hours is None else timedelta(hours=hours),
        expire_after=timedelta(days=row.expire_after_days),
        remind_before=timedelta(days=row.remind_days),
    )


def _rule(step: Mapping[str, Any]) -> StepRule:
    cost_from = step.get("cost_from")
    return StepRule(
        level=RequestLevel(step["level"]),
        units_from=_by_size(step.get("units_from", {})),
        cost_from=None if cost_from is None else Decimal(cost_from),
    )


def _by_size(units: Mapping[str, int]) -> dict[GPUSize, int]:
    return {GPUSize(size): count for size, count in units.items()}
