"""Tier schedules: published for coming months or open ones, and withdrawn before they begin."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from django.db import transaction

from billing.domain.errors import (
    TierInForceError,
    TierMonthsClosedError,
    TierOverlapError,
    TierWithdrawnError,
    required_reason,
)
from billing.domain.period import month_of
from billing.domain.pricing.tier_schedule import TierRule, overlaps, require_rule
from billing.models import PriceBook, TierSchedule
from billing.selectors.documents.tiers import rule_of
from billing.selectors.locks import lock_price_book, share_periods_of_book
from tenants.domain.actors import Actor
from tenants.services.audit import record


def publish_tiers(
    *, price_book: PriceBook, rule: TierRule, actor: Actor, at: datetime
) -> TierSchedule:
    """Publish a tier schedule of a price book.

    Args:
        price_book: Whose organizations it gives discounts to.
        rule: What it gives, and the months it is in force.
        actor: The account that publishes it.
        at: When.

    Raises:
        TierInvalidError: Name, months, fiscal year, sizes, price groups or bands are wrong.
        PeriodLabelInvalidError: A month is none.
        TierMonthsClosedError: An organization of the book has a closed month among them.
        TierOverlapError: Another schedule of the book gives a discount on some of the same use.
    """
    rule = replace(rule, name=rule.name.strip())
    require_rule(rule)
    with transaction.atomic():
        closed = share_periods_of_book(price_book.pk, first_month=rule.first_month)
        if closed is not None:
            raise TierMonthsClosedError(
                "A month of an organization of the book is closed already.",
                field="first_month",
                facts={"month": closed},
            )
        book = lock_price_book(price_book.pk)
        for other in TierSchedule.objects.filter(price_book=book, withdrawn_at=None):
            if overlaps(rule, rule_of(other)):
                raise TierOverlapError(
                    "Another schedule of the book gives a discount on some of the same use.",
                    field="first_month",
                    facts={"tier_schedule": str(other.pk), "name": other.name},
                )
        schedule = TierSchedule.objects.create(
            price_book=book,
            name=rule.name,
            basis=rule.basis.value,
            kind=rule.kind.value,
            scope=rule.scope.value,
            span=rule.span.value,
            year_begins=rule.year_begins,
            sizes=list(rule.sizes),
            price_groups=list(rule.price_groups),
            first_month=rule.first_month,
            last_month=rule.last_month,
            bands=[
                {
                    "above": f"{band.above.normalize():f}",
                    "discount_percent": f"{band.discount_percent.normalize():f}",
                }
                for band in rule.bands
            ],
            published_at=at,
        )
        _audit(schedule, action="publish", actor=actor, at=at)
    return schedule


def withdraw_tiers(*, schedule_id: UUID, reason: str, actor: Actor, at: datetime) -> TierSchedule:
    """Withdraw a tier schedule whose first month has not begun.

    Raises:
        ReasonMissingError: There is no reason.
        TierWithdrawnError: It is withdrawn already.
        TierInForceError: Its first month has begun.
        TierSchedule.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        lock_price_book(
            TierSchedule.objects.values_list("price_book", flat=True).get(pk=schedule_id)
        )
        schedule = TierSchedule.objects.select_related("price_book").get(pk=schedule_id)
        if schedule.withdrawn_at is not None:
            raise TierWithdrawnError(
                "The schedule is withdrawn already.",
                facts={"withdrawn_at": schedule.withdrawn_at.isoformat()},
            )
        if schedule.first_month <= month_of(at, UTC).label:
            raise TierInForceError(
                "The first month of the schedule has begun.",
                facts={"first_month": schedule.first_month},
            )
        schedule.withdrawn_at = at
        schedule.save(update_fields=["withdrawn_at"])
        _audit(schedule, action="withdraw", actor=actor, at=at, reason=why)
    return schedule


def _audit(
    schedule: TierSchedule, *, action: str, actor: Actor, at: datetime, **extra: str
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:tier_schedule:{action}",
        object_kind="tier_schedule",
        object_id=schedule.pk,
        facts={
            "price_book": schedule.price_book.slug,
            "name": schedule.name,
            "first_month": schedule.first_month,
            "last_month": schedule.last_month,
            "bands": schedule.bands,
            **extra,
        },
    )
