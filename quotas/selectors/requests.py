"""Requests: which policy routes them, which limits are around them, and what is due by time."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import CharField, Exists, F, Func, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat

from metering.domain.catalogue.units import GPUSize
from quotas.domain.requests.routing import RequestLevel, RoutingRules, StepRule
from quotas.models import (
    GrantReason,
    QuotaGrant,
    QuotaLimit,
    QuotaRequest,
    RequestPolicy,
    RequestState,
    RequestStep,
    StepOutcome,
)
from quotas.selectors.limits.units_now import limit_use
from tenants.models import Notification

ENDING: Final = "quotas:grant:ending"
_KEY: Final = Concat(
    Value(f"{ENDING}:"),
    Cast("pk", CharField()),
    Value(":"),
    Func(
        F("valid__endswith"),
        function="to_char",
        template="to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
        output_field=CharField(),
    ),
)


@dataclass(frozen=True)
class PolicyInForce:
    """The policy of an organization: its own, the platform's, or the default.

    Attributes:
        policy_id: None for the default.
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
    """Return the requests whose open step was not decided in time, oldest first."""
    rows = RequestStep.objects.filter(
        outcome=StepOutcome.OPEN, escalates_at__lte=at, request__state=RequestState.SUBMITTED
    )
    return list(rows.order_by("escalates_at", "pk").values_list("request_id", flat=True)[:limit])


def ending_grants(*, at: datetime, limit: int) -> list[tuple[QuotaGrant, QuotaRequest]]:
    """Return grants of requests that end within their policy's days, with the request, by end.

    Left out are grants notified before, grants with a renewal request, and all but the last grant
    of a request. Three statements.
    """
    renewed = QuotaRequest.objects.filter(
        renews__isnull=False, state__in=[RequestState.SUBMITTED, RequestState.APPROVED]
    ).values(reference=Cast("renews_id", CharField()))
    following = QuotaGrant.objects.filter(
        reason=GrantReason.REQUEST,
        reference=OuterRef("reference"),
        valid__startswith__gte=OuterRef("valid__endswith"),
    )
    grants = (
        QuotaGrant.objects.filter(_ends_soon(at), reason=GrantReason.REQUEST)
        .annotate(notification_key=_KEY)
        .exclude(notification_key__in=Notification.objects.filter(event=ENDING).values("key"))
        .exclude(reference__in=renewed)
        .exclude(Exists(following))
        .order_by("valid__endswith", "pk")[:limit]
    )
    due = list(grants)
    requests = (
        QuotaRequest.objects.filter(pk__in=[grant.reference for grant in due])
        .select_related("project", "user", "cluster", "requested_by")
        .in_bulk()
    )
    return [(grant, requests[UUID(grant.reference)]) for grant in due]


def ending_key(grant: QuotaGrant) -> str:
    """Return the key of the news that a grant ends then; the same as the database makes it."""
    end = grant.valid.upper.astimezone(UTC)
    return f"{ENDING}:{grant.pk}:{end:%Y-%m-%dT%H:%M:%S.%f}"


def _ends_soon(at: datetime) -> Q:
    """Return which grants end within the days of their organization's policy."""
    policies = policies_of()
    default = policies.pop(None, PolicyInForce())
    own: dict[timedelta, list[UUID | None]] = {}
    for organization_id, policy in policies.items():
        own.setdefault(policy.remind_before, []).append(organization_id)
    soon = ~Q(organization__in=list(policies)) & Q(valid__endswith__lte=at + default.remind_before)
    for before, organization_ids in own.items():
        soon |= Q(organization__in=organization_ids, valid__endswith__lte=at + before)
    return soon & Q(valid__endswith__gt=at)


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


@dataclass(frozen=True)
class Standing:
    """Summary for a person who decides.

    Attributes:
        limit_units: In force now; None when unset or unlimited.
        is_set: Whether there is a limit at all.
        set_units: The limit itself, without grants; None when unset or unlimited.
        burst_units: Burst units of the limit; None when unset.
        taken_units: Held by pods or reserved for them.
        left_units: Free units after an approval; None where nothing is set yet.
    """

    is_set: bool
    limit_units: int | None
    set_units: int | None
    burst_units: int | None
    taken_units: int
    left_units: int | None


def standing_of(request: QuotaRequest, *, at: datetime, burst_classes: Collection[str]) -> Standing:
    """Return the summary of a request now; four statements.

    Args:
        request: Which one.
        at: When, UTC.
        burst_classes: Priority classes of preemptible pods.
    """
    limit = QuotaLimit.objects.filter(
        organization=request.organization,
        project=request.project,
        user=request.user,
        size=request.size,
        model_group=request.model_group,
        cluster=request.cluster,
    ).first()
    if limit is None:
        return Standing(
            is_set=False,
            limit_units=None,
            set_units=None,
            burst_units=None,
            taken_units=0,
            left_units=None,
        )
    use = limit_use([limit], at=at, burst_classes=burst_classes)[limit.pk]
    taken = use.headroom.used_units + use.headroom.reserved_units
    return Standing(
        is_set=True,
        limit_units=use.in_force.nominal_units,
        set_units=limit.limit_units,
        burst_units=limit.burst_units,
        taken_units=taken,
        left_units=max(0, request.requested_units - taken),
    )
