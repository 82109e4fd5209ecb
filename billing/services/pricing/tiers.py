"""Tier schedules: published for months that are open, withdrawn, or replaced from a month on."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from billing.domain.errors import (
    ReplacedTierError,
    TierInForceError,
    TierMonthsClosedError,
    TierOverlapError,
    TierWithdrawnError,
    required_reason,
)
from billing.domain.pricing.tier_schedule import TierRule, overlaps, require_rule
from billing.models import PriceBook, TierSchedule
from billing.selectors.documents.tiers import rule_of
from billing.selectors.locks import lock_price_book, share_periods_of_book
from tenants.domain.actors import Actor
from tenants.services.audit import record


def publish_tiers(
    *,
    price_book: PriceBook,
    rule: TierRule,
    actor: Actor,
    at: datetime,
    replaces: UUID | None = None,
    reason: str = "",
) -> TierSchedule:
    """Publish a tier schedule of a price book.

    One that replaces another takes over from its first month, closed months included. Final
    invoices keep their tier lines: the next document that bills use of the span has the difference,
    and a void one is made anew with the schedule that replaced it.

    Args:
        price_book: Whose organizations it gives discounts to.
        rule: What it gives, and the months it is in force.
        actor: The account that publishes it.
        at: When.
        replaces: The wrong schedule of the book that is in force in `rule.first_month`.
        reason: Why; needed to replace one.

    Raises:
        ReasonMissingError: A schedule is replaced without a reason.
        ReplacedTierError: The named schedule is not one of the book in force in that month.
        TierInvalidError: Name, months, fiscal year, sizes, price groups or bands are wrong.
        PeriodLabelInvalidError: A month is none.
        TierMonthsClosedError: An organization of the book has a closed month among them.
        TierOverlapError: Another schedule of the book gives a discount on some of the same use.
    """
    rule = replace(rule, name=rule.name.strip())
    require_rule(rule)
    why = required_reason(reason) if replaces else reason.strip()
    with transaction.atomic():
        closed = share_periods_of_book(price_book.pk, first_month=rule.first_month)
        if closed is not None and replaces is None:
            raise TierMonthsClosedError(
                "A month of an organization of the book is closed already.",
                field="first_month",
                facts={"month": closed},
            )
        book = lock_price_book(price_book.pk)
        if replaces is not None:
            _supersede(book, replaces, from_month=rule.first_month, reason=why, actor=actor, at=at)
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
            replaces_id=replaces,
        )
        extra = {"replaces": str(replaces), "reason": why} if replaces else {}
        _audit(schedule, action="publish", actor=actor, at=at, **extra)
    return schedule


def withdraw_tiers(*, schedule_id: UUID, reason: str, actor: Actor, at: datetime) -> TierSchedule:
    """Withdraw a tier schedule of whose months none is closed; open ones are drafted without it.

    Raises:
        ReasonMissingError: There is no reason.
        TierWithdrawnError: It is withdrawn already.
        TierInForceError: A month of an organization of its book is closed since its first one.
        TierSchedule.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        found = TierSchedule.objects.only("price_book_id", "first_month").get(pk=schedule_id)
        closed = share_periods_of_book(found.price_book_id, first_month=found.first_month)
        lock_price_book(found.price_book_id)
        schedule = TierSchedule.objects.select_related("price_book").get(pk=schedule_id)
        if schedule.withdrawn_at is not None:
            raise TierWithdrawnError(
                "The schedule is withdrawn already.",
                facts={"withdrawn_at": schedule.withdrawn_at.isoformat()},
            )
        if closed is not None:
            raise TierInForceError(
                "A month in which the schedule was in force is closed.", facts={"month": closed}
            )
        schedule.withdrawn_at = at
        schedule.save(update_fields=["withdrawn_at"])
        _audit(schedule, action="withdraw", actor=actor, at=at, reason=why)
    return schedule


def _supersede(
    book: PriceBook, schedule_id: UUID, *, from_month: str, reason: str, actor: Actor, at: datetime
) -> None:
    """End the schedule that another one replaces, in the caller's transaction."""
    replaced = TierSchedule.objects.filter(
        pk=schedule_id, price_book=book, withdrawn_at=None, superseded_from=""
    ).first()
    if replaced is None or not rule_of(replaced).is_in_force(from_month):
        raise ReplacedTierError(
            "The named schedule is not in force in that month.",
            field="replaces",
            facts={"month": from_month},
        )
    replaced.superseded_from = from_month
    replaced.save(update_fields=["superseded_from"])
    _audit(
        replaced, action="supersede", actor=actor, at=at, superseded_from=from_month, reason=reason
    )


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
            **{name: getattr(schedule, name) for name in _COUNTED},
            **extra,
        },
    )


_COUNTED = ("basis", "kind", "scope", "span", "year_begins", "sizes", "price_groups")
"""What a schedule counts; the audit trail has it, so that `verify` can compare it."""
