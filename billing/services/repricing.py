"""Repricing a month: wrong charges are reversed and made anew at the published right prices.

Nothing is changed: each wrong charge gets one of the same unit-seconds, negative, and one at the
right price, all with the id of the repricing. They are posted like late usage, so a closed month
stays as it is and the next open one has the difference.
"""

from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from billing.domain.documents.document import utc_text
from billing.domain.documents.invoicing import require_amount
from billing.domain.errors import (
    NothingToRepriceError,
    RepricingDecidedError,
    RepricingFourEyesError,
    RepricingStaleError,
    RepricingUnpricedError,
    required_reason,
)
from billing.domain.pricing.repricing import PriceChange, total_after, total_before
from billing.models import BillingPeriod, Repricing
from billing.models.price_change import RepricingState
from billing.selectors.daily_costs import note_changed_hours
from billing.selectors.locks import lock_for_repricing
from billing.selectors.pricing.repricing import MISPRICED, hours_of, price_changes
from billing.services.periods import ensure_periods
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor
from tenants.services.audit import record


def reprice_period(
    *, period_id: UUID, reason: str, is_four_eyes: bool, actor: Actor, at: datetime
) -> Repricing:
    """Return a proposed repricing of a month with its preview; posted at once without four eyes.

    Args:
        period_id: The month; open or closed.
        reason: Why; goes into the audit trail.
        is_four_eyes: Whether another person has to approve it.
        actor: The requester.
        at: When.

    Raises:
        ReasonMissingError: There is no reason.
        RepricingUnpricedError: Charged usage of the month has no published price now.
        NothingToRepriceError: Everything is charged at the published prices.
        AmountTooLargeError: The cost before or after has more digits than the ledger keeps.
        BillingPeriod.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        prefer_hash_joins()
        period = _lock(period_id, actor=actor, at=at)
        changes = _changes_of(period)
        currency = period.organization.billing_currency
        before = total_before(changes, currency=currency)
        after = total_after(changes, currency=currency)
        for amount in (before, after):
            require_amount(amount, what="What is repriced", field="period")
        repricing = Repricing.objects.create(
            organization=period.organization,
            period=period,
            reason=why,
            changes=[change.to_json() for change in changes],
            currency=currency,
            before=before.amount,
            after=after.amount,
            requested_by=actor.label,
            requested_by_id=actor.id,
            requested_at=at,
        )
        _audit(repricing, action="propose", actor=actor, at=at)
        if not is_four_eyes:
            _post(repricing, note="", actor=actor, at=at)
    return repricing


def approve_repricing(
    *, repricing_id: UUID, note: str = "", is_four_eyes: bool, actor: Actor, at: datetime
) -> Repricing:
    """Post a proposed repricing: reverse the wrong charges and make the right ones.

    Raises:
        RepricingDecidedError: It is posted or rejected already.
        RepricingFourEyesError: The actor asked for it, and the site requires four eyes.
        RepricingUnpricedError: Charged usage of the month has no published price now.
        NothingToRepriceError: Everything is charged at the published prices.
        RepricingStaleError: Charges or prices have changed since the preview.
        Repricing.DoesNotExist: There is none.
    """
    with transaction.atomic():
        prefer_hash_joins()
        repricing = _lock_proposed(repricing_id, actor=actor, at=at)
        if is_four_eyes and repricing.requested_by_id == actor.id:
            raise RepricingFourEyesError(
                "A repricing is approved by another person than asked for it.",
                facts={"requested_by": repricing.requested_by},
            )
        if [change.to_json() for change in _changes_of(repricing.period)] != repricing.changes:
            raise RepricingStaleError("Charges or prices have changed since the preview.")
        _post(repricing, note=note.strip(), actor=actor, at=at)
    return repricing


def reject_repricing(*, repricing_id: UUID, note: str, actor: Actor, at: datetime) -> Repricing:
    """Reject a proposed repricing with a reason; the charges stay as they are.

    Raises:
        ReasonMissingError: The note is empty.
        RepricingDecidedError: It is posted or rejected already.
        Repricing.DoesNotExist: There is none.
    """
    why = required_reason(note, field="note")
    with transaction.atomic():
        repricing = _lock_proposed(repricing_id, actor=actor, at=at)
        _decide(repricing, RepricingState.REJECTED, note=why, actor=actor, at=at)
        _audit(repricing, action="reject", actor=actor, at=at)
    return repricing


def _lock(period_id: UUID, *, actor: Actor, at: datetime) -> BillingPeriod:
    """Return a month, locked with the open ones, of which there is one that takes the charges."""
    period = BillingPeriod.objects.select_related("organization").get(pk=period_id)
    ensure_periods({period.organization_id: (period.hours.lower, at)}, actor=actor, at=at)
    lock_for_repricing(period)
    return BillingPeriod.objects.select_related("organization").get(pk=period_id)


def _lock_proposed(repricing_id: UUID, *, actor: Actor, at: datetime) -> Repricing:
    rows = Repricing.objects.filter(pk=repricing_id)
    _lock(rows.values_list("period", flat=True).get(), actor=actor, at=at)
    repricing = rows.select_related("period", "organization").get()
    if repricing.state != RepricingState.PROPOSED:
        raise RepricingDecidedError(
            f"The repricing is {repricing.state} already.", facts={"state": repricing.state}
        )
    return repricing


def _changes_of(period: BillingPeriod) -> tuple[PriceChange, ...]:
    changes, unpriced = price_changes(period)
    if unpriced is not None:
        raise RepricingUnpricedError(
            f"Charged usage has no published price now: {unpriced.size}, {unpriced.price_group}, "
            f"at {utc_text(unpriced.window_start)}.",
            field="period",
            facts={
                "size": unpriced.size,
                "price_group": unpriced.price_group,
                "hour": unpriced.window_start.isoformat(),
            },
        )
    if not changes:
        raise NothingToRepriceError(
            "Everything in the month is charged at the published prices.", field="period"
        )
    return changes


def _post(repricing: Repricing, *, note: str, actor: Actor, at: datetime) -> None:
    given = {**hours_of(repricing.period), "repricing": repricing.pk, "at": at}
    with connection.cursor() as cursor:
        cursor.execute(_CHARGE_ANEW, given)
        (charges,) = cursor.fetchone()
    _decide(repricing, RepricingState.POSTED, note=note, actor=actor, at=at)
    _audit(repricing, action="post", charges=charges, actor=actor, at=at)


def _decide(
    repricing: Repricing, state: RepricingState, *, note: str, actor: Actor, at: datetime
) -> None:
    repricing.state, repricing.decision_note = state, note
    repricing.decided_by, repricing.decided_by_id = actor.label, actor.id
    repricing.decided_at = at
    repricing.save(
        update_fields=["state", "decision_note", "decided_by", "decided_by_id", "decided_at"]
    )


def _audit(
    repricing: Repricing, *, action: str, actor: Actor, at: datetime, charges: int | None = None
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:repricing:{action}",
        object_kind="repricing",
        object_id=repricing.pk,
        organization_id=repricing.organization_id,
        facts={
            "period": repricing.period.label,
            "reason": repricing.reason,
            "currency": repricing.currency,
            "before": str(repricing.before),
            "after": str(repricing.after),
            **({"note": repricing.decision_note} if repricing.decision_note else {}),
            **({} if charges is None else {"charges": charges}),
        },
    )


# The new charges of a key are one sum, whatever the number of wrong prices it was charged at.
_CHARGE_ANEW = f"""
WITH {MISPRICED},
made AS (
  SELECT window_id, window_start, cluster_id, project_id, owner, size, price_group, correction_id,
         price_id, unit_price, base_unit_price, currency, -unit_seconds AS unit_seconds
    FROM mispriced
   UNION ALL
  SELECT window_id, window_start, cluster_id, project_id, owner, size, price_group, correction_id,
         right_price_id, right_price, right_base_price, right_currency, sum(unit_seconds)::bigint
    FROM mispriced
   GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
  HAVING sum(unit_seconds) <> 0
),
hours AS MATERIALIZED (SELECT DISTINCT window_start FROM made),
posting AS MATERIALIZED (
  SELECT h.window_start, target.period_id
    FROM hours h
   CROSS JOIN LATERAL (
     SELECT p.id AS period_id FROM billing_billingperiod p
      WHERE p.organization_id = %(organization)s AND p.state = 'open'
        AND upper(p.hours) > h.window_start
      ORDER BY lower(p.hours) LIMIT 1) target
),
charged AS (
INSERT INTO billing_charge
  (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
   tier, price_id, unit_price, base_unit_price, currency, unit_seconds, correction_id,
   repricing_id, period_id, created_at)
SELECT m.window_id, m.window_start, m.cluster_id, %(organization)s, m.project_id, m.owner, m.size,
       m.price_group, 0, m.price_id, m.unit_price, m.base_unit_price, m.currency, m.unit_seconds,
       m.correction_id, %(repricing)s, t.period_id, %(at)s
  FROM made m JOIN posting t USING (window_start)
 ORDER BY m.window_id, m.correction_id, m.project_id, m.owner, m.size, m.price_group, m.price_id
RETURNING organization_id, window_start),
changed AS ({note_changed_hours("charged")})
SELECT count(*) FROM charged
"""  # noqa: S608 - Put together from constants only.
