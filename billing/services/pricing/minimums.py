"""Minimum charges: published for months that are open, withdrawn, or replaced from a month on."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from billing.domain.errors import required_reason
from billing.domain.money import Money
from billing.domain.pricing.minimum import (
    MinimumInForceError,
    MinimumMonthsClosedError,
    MinimumOverlapError,
    MinimumRule,
    ProjectMissingError,
    require_minimum,
)
from billing.models import BillingPeriod, MinimumCharge, PeriodState
from billing.selectors.locks import lock_organization
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.services.audit import record


def publish_minimum(
    *,
    organization: Organization,
    rule: MinimumRule,
    actor: Actor,
    at: datetime,
    replaces: UUID | None = None,
    reason: str = "",
) -> MinimumCharge:
    """Publish a minimum charge of an organization.

    One that replaces another takes over from its first month, closed months included: the next
    document that bills use of such a month has the difference, and a void one is made anew with it.

    Args:
        organization: Who pays it, in its billing currency.
        rule: Amount and months.
        actor: The account that publishes it.
        at: When.
        replaces: The one that is in force in `rule.first_month`.
        reason: Why; needed to replace one.

    Raises:
        ReasonMissingError: One is replaced without a reason.
        MinimumInvalidError: Amount or months are wrong.
        PeriodLabelInvalidError: A month is none.
        ProjectMissingError: The organization has no project.
        MinimumMonthsClosedError: A month of it is closed.
        MinimumInForceError: The named one is not one of the organization in force in that month.
        MinimumOverlapError: Another one is in force in one of its months.
    """
    why = required_reason(reason) if replaces else reason.strip()
    with transaction.atomic():
        payer = lock_organization(organization.pk)
        require_minimum(rule, currency=payer.billing_currency)
        if not payer.projects.exists():
            raise ProjectMissingError("The organization has no project.", field="organization")
        closed = _last_closed(payer)
        if closed >= rule.first_month and replaces is None:
            raise MinimumMonthsClosedError(
                "A month of the minimum charge is closed already.",
                field="first_month",
                facts={"month": closed},
            )
        if replaces is not None:
            _supersede(payer, replaces, from_month=rule.first_month, reason=why, actor=actor, at=at)
        for other in MinimumCharge.objects.filter(organization=payer, withdrawn_at=None):
            if rule.overlaps(rule_of(other)):
                raise MinimumOverlapError(
                    "Another minimum charge is in force in one of the months.",
                    field="first_month",
                    facts={"minimum_charge": str(other.pk)},
                )
        minimum = MinimumCharge.objects.create(
            organization=payer,
            amount=rule.amount,
            currency=payer.billing_currency,
            first_month=rule.first_month,
            last_month=rule.last_month,
            published_at=at,
            replaces_id=replaces,
        )
        extra = {"replaces": str(replaces), "reason": why} if replaces else {}
        _audit(minimum, action="publish", actor=actor, at=at, **extra)
    return minimum


def withdraw_minimum(*, minimum_id: UUID, reason: str, actor: Actor, at: datetime) -> MinimumCharge:
    """Withdraw a minimum charge of whose months none is closed.

    Raises:
        ReasonMissingError: There is no reason.
        MinimumInForceError: It is withdrawn or replaced already, or one of its months is closed.
        MinimumCharge.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        found = MinimumCharge.objects.only("organization_id").get(pk=minimum_id)
        payer = lock_organization(found.organization_id)
        minimum = MinimumCharge.objects.get(pk=minimum_id)
        is_over = minimum.withdrawn_at is not None or bool(minimum.superseded_from)
        if is_over or _last_closed(payer) >= minimum.first_month:
            raise MinimumInForceError(
                "The minimum charge is over, or one of its months is closed.",
                facts={"last_closed": _last_closed(payer)},
            )
        minimum.withdrawn_at = at
        minimum.save(update_fields=["withdrawn_at"])
        _audit(minimum, action="withdraw", actor=actor, at=at, reason=why)
    return minimum


def rule_of(row: MinimumCharge) -> MinimumRule:
    """Return a stored minimum charge as the domain knows it."""
    return MinimumRule(row.amount, row.first_month, row.last_month, row.superseded_from)


def _last_closed(payer: Organization) -> str:
    closed = BillingPeriod.objects.filter(organization=payer, state=PeriodState.CLOSED)
    return closed.order_by("label").values_list("label", flat=True).last() or ""


def _supersede(
    payer: Organization,
    minimum_id: UUID,
    *,
    from_month: str,
    reason: str,
    actor: Actor,
    at: datetime,
) -> None:
    replaced = MinimumCharge.objects.filter(
        pk=minimum_id, organization=payer, withdrawn_at=None, superseded_from=""
    ).first()
    if replaced is None or not rule_of(replaced).is_in_force(from_month):
        raise MinimumInForceError(
            "The named minimum charge is not in force in that month.",
            field="replaces",
            facts={"month": from_month},
        )
    replaced.superseded_from = from_month
    replaced.save(update_fields=["superseded_from"])
    _audit(
        replaced, action="supersede", actor=actor, at=at, superseded_from=from_month, reason=reason
    )


def _audit(
    minimum: MinimumCharge, *, action: str, actor: Actor, at: datetime, **extra: str
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:minimum_charge:{action}",
        object_kind="minimum_charge",
        object_id=minimum.pk,
        organization_id=minimum.organization_id,
        facts={
            "amount": f"{Money(minimum.amount, minimum.currency).amount:f}",
            "currency": minimum.currency,
            "first_month": minimum.first_month,
            "last_month": minimum.last_month,
            **extra,
        },
    )
