"""Drafts of prices: previewed on last month's use, published by another person, all or none."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from billing.domain.errors import (
    PriceDraftDecidedError,
    PriceDraftFourEyesError,
    required_reason,
)
from billing.domain.period import Month, require_hour
from billing.domain.pricing.price_book import ANY_TIME, discounted
from billing.domain.pricing.price_calendar import require_band
from billing.domain.pricing.price_draft import DraftedPrice, Effect, effects_of, require_prices
from billing.models import PriceBook, PriceDraft
from billing.models.price_change import PriceDraftState
from billing.selectors.locks import lock_price_book, lock_price_draft
from billing.selectors.pricing.price_calendars import bands_of
from billing.selectors.pricing.price_drafts import (
    books_priced_by,
    clusters_named,
    month_before,
    prices_in_force,
    table_of,
    use_of_month,
)
from billing.services.pricing.prices import set_price
from tenants.domain.actors import Actor
from tenants.services.audit import record


def draft_prices(
    *,
    price_book: PriceBook,
    prices: Sequence[DraftedPrice],
    valid_from: datetime,
    reason: str,
    actor: Actor,
    at: datetime,
) -> PriceDraft:
    """Return a draft of prices with what it changes on last month's use; nothing is priced by it.

    Args:
        price_book: The book.
        prices: One for each size and group that gets a new price.
        valid_from: The whole UTC hour from which they are in force once published.
        reason: Why; goes into the audit trail.
        actor: The person who proposes them.
        at: When.

    Raises:
        ReasonMissingError: There is no reason.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        PriceDraftInvalidError: There are no prices, too many, or two of one key.
        PriceInvalidError: A price cannot be kept.
        PriceKeyInvalidError: A size, group, cluster or band is not known.
    """
    why = required_reason(reason)
    begin_at = require_hour(valid_from, field="valid_from")
    require_prices(prices)
    clusters_named(price.key[2] for price in prices)
    known = bands_of(price_book, hour=begin_at)
    for price in prices:
        require_band(price.band, known=known)
    with transaction.atomic():
        month = month_before(at)
        effects = _effects(price_book, prices, month=month, hour=begin_at)
        draft = PriceDraft.objects.create(
            price_book=price_book,
            valid_from=begin_at,
            prices=[_to_json(price) for price in prices],
            month=month.label,
            effects=[
                {
                    "organization": effect.organization,
                    "before": str(effect.before.amount),
                    "after": str(effect.after.amount),
                    "unpriced_unit_seconds": effect.unpriced_unit_seconds,
                }
                for effect in effects
            ],
            reason=why,
            requested_by=actor.label,
            requested_by_id=actor.id,
            requested_at=at,
        )
        _audit(draft, action="propose", actor=actor, at=at)
    return draft


def publish_draft(
    *, draft_id: UUID, note: str = "", is_four_eyes: bool, actor: Actor, at: datetime
) -> PriceDraft:
    """Set every price of a draft, or none.

    Raises:
        PriceDraftDecidedError: It is published or rejected already.
        PriceDraftFourEyesError: The actor proposed it, and the site requires four eyes.
        PriceOverlapError: A key has a price at that hour, and a later one or one as old.
        PriceInUseError: Hours a price would cover are charged already.
        ReplacedPriceError: A price to replace is not the one in force at that hour.
        PriceDraft.DoesNotExist: There is none.
    """
    with transaction.atomic():
        draft = _lock_proposed(draft_id)
        if is_four_eyes and draft.requested_by_id == actor.id:
            raise PriceDraftFourEyesError(
                "A draft of prices is published by another person than proposed it.",
                facts={"requested_by": draft.requested_by},
            )
        clusters = clusters_named(price.get("cluster") for price in draft.prices)
        for price in draft.prices:
            set_price(
                price_book=draft.price_book,
                size=price["size"],
                price_group=price["price_group"],
                cluster=clusters.get(price.get("cluster")),
                band=price.get("band", ANY_TIME),
                unit_price=Decimal(price["unit_price"]),
                valid_from=draft.valid_from,
                actor=actor,
                at=at,
                **_repair(price, draft),
                is_drafted=True,
            )
        _decide(draft, PriceDraftState.PUBLISHED, note=note.strip(), actor=actor, at=at)
        _audit(draft, action="publish", actor=actor, at=at)
    return draft


def reject_draft(*, draft_id: UUID, note: str, actor: Actor, at: datetime) -> PriceDraft:
    """Reject a draft of prices with a reason.

    Raises:
        ReasonMissingError: The note is empty.
        PriceDraftDecidedError: It is published or rejected already.
        PriceDraft.DoesNotExist: There is none.
    """
    why = required_reason(note, field="note")
    with transaction.atomic():
        draft = _lock_proposed(draft_id)
        _decide(draft, PriceDraftState.REJECTED, note=why, actor=actor, at=at)
        _audit(draft, action="reject", actor=actor, at=at)
    return draft


def _lock_proposed(draft_id: UUID) -> PriceDraft:
    book_id = PriceDraft.objects.values_list("price_book", flat=True).get(pk=draft_id)
    lock_price_book(book_id)
    draft = lock_price_draft(draft_id)
    if draft.state != PriceDraftState.PROPOSED:
        raise PriceDraftDecidedError(
            f"The draft is {draft.state} already.", facts={"state": draft.state}
        )
    return draft


def _decide(
    draft: PriceDraft, state: PriceDraftState, *, note: str, actor: Actor, at: datetime
) -> None:
    draft.state, draft.decision_note = state, note
    draft.decided_by, draft.decided_by_id, draft.decided_at = actor.label, actor.id, at
    draft.save(
        update_fields=["state", "decision_note", "decided_by", "decided_by_id", "decided_at"]
    )


def _audit(draft: PriceDraft, *, action: str, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:price_draft:{action}",
        object_kind="price_draft",
        object_id=draft.pk,
        facts={
            "price_book": draft.price_book.slug,
            "valid_from": draft.valid_from.isoformat(),
            "prices": draft.prices,
            "reason": draft.reason,
            **({"note": draft.decision_note} if draft.decision_note else {}),
        },
    )


def _effects(
    book: PriceBook, prices: Sequence[DraftedPrice], *, month: Month, hour: datetime
) -> list[Effect]:
    """Return what prices of a book change, for organizations of discounts on it too, by slug."""
    books = books_priced_by(book)
    in_force = prices_in_force(books, hour=hour)
    use = use_of_month(books, month=month, hour=hour)
    effects: list[Effect] = []
    for one in books:
        before, after = table_of(in_force[one.pk]), table_of(in_force[one.pk])
        for price in prices:
            known = in_force[one.pk].get(price.key)
            if one.pk == book.pk:
                after[price.key] = price.unit_price
            elif one.discount_percent is not None and (known is None or not known.is_own):
                after[price.key] = discounted(
                    price.unit_price, discount_percent=one.discount_percent
                )
        effects += effects_of(use[one.pk], before=before, after=after, currency=book.currency)
    return sorted(effects, key=lambda effect: effect.organization)


def _repair(price: dict[str, str], draft: PriceDraft) -> dict[str, Any]:
    """Return what a price replaces, and why; a draft needs a reason in any case."""
    if "replaces" not in price:
        return {}
    return {"replaces": UUID(price["replaces"]), "reason": draft.reason}


def _to_json(price: DraftedPrice) -> dict[str, str]:
    return {
        "size": price.size,
        "price_group": price.price_group,
        **({} if price.cluster is None else {"cluster": str(price.cluster)}),
        **({"band": price.band} if price.band else {}),
        "unit_price": f"{price.unit_price.normalize():f}",
        **({} if price.replaces is None else {"replaces": str(price.replaces)}),
    }
