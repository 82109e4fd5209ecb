"""Opening balances: what organizations owed, or had as credit, in the system before this one."""

from datetime import date, datetime
from decimal import Decimal
from typing import Final

from django.db import transaction

from billing.domain.ledger.errors import OpeningBalanceExistsError, OpeningBalanceInvalidError
from billing.domain.money import Money
from billing.models import OpeningBalance, Payment, PaymentKind
from billing.models.payment import REFERENCE_LENGTH_MAX
from billing.selectors.locks import lock_organizations, share_accounting_months
from billing.services.ledger.journal import post_events
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.services.audit import record


def record_opening_balance(  # noqa: PLR0913 - What the system before had; keyword only.
    *,
    organization: Organization,
    reference: str,
    amount: Decimal,
    currency: str,
    dated_on: date,
    due_on: date | None = None,
    actor: Actor,
    at: datetime,
) -> OpeningBalance:
    """Record and post an open item of the system before, or credit, which settles open items.

    A wrong one is settled by an opposite one with another reference.

    Args:
        organization: Whose.
        reference: Its number in the system before.
        amount: Owed above zero, credit below.
        currency: Of the amount.
        dated_on: As of when it is taken over.
        due_on: When it is, or was, to be paid; None for credit.
        actor: The account that records it.
        at: When.

    Raises:
        OpeningBalanceInvalidError: Reference, amount or a date cannot be kept.
        CurrencyUnknownError: The currency is not an active one.
        OpeningBalanceExistsError: The organization has one with this reference.
    """
    made = OpeningBalance(
        organization=organization,
        reference=reference.strip(),
        amount=amount,
        currency=currency,
        dated_on=dated_on,
        due_on=due_on,
        recorded_by=actor.label,
        recorded_at=at,
    )
    _require_valid(made, today=at.date())
    with transaction.atomic():
        lock_organizations([organization.pk])
        share_accounting_months()
        of_organization = OpeningBalance.objects.filter(organization=organization)
        if of_organization.filter(reference=made.reference).exists():
            raise OpeningBalanceExistsError("The reference is recorded.", field="reference")
        if amount < 0:
            made.credit = _credit(made)
        made.save(force_insert=True)
        post_events(_OPENING_BALANCES, {"id": made.pk}, actor=actor, at=at)
        record(
            actor=actor,
            at=at,
            action="billing:opening_balance:record",
            object_kind="opening_balance",
            object_id=made.pk,
            organization_id=organization.pk,
            facts={
                "reference": made.reference,
                "total": str(amount),
                "currency": currency,
                "dated_on": dated_on.isoformat(),
                "due_on": due_on.isoformat() if due_on else None,
            },
        )
    return made


def _require_valid(made: OpeningBalance, *, today: date) -> None:
    zero = Money.zero(made.currency)
    try:
        money = Money(made.amount, made.currency)
    except ValueError:
        money = zero
    is_credit = money.minor_units < 0
    for is_refused, field, message in (
        (
            not made.reference
            or len(made.reference) > REFERENCE_LENGTH_MAX
            or not made.reference.isprintable(),
            "reference",
            f"It has 1 to {REFERENCE_LENGTH_MAX} characters.",
        ),
        (
            not money.minor_units or abs(money.amount) >= Decimal(10) ** 16,
            "amount",
            "The amount is zero, too large, or finer than the currency.",
        ),
        (made.dated_on > today, "dated_on", "The date is in the future."),
        (is_credit and made.due_on is not None, "due_on", "Credit has no due date."),
        (not is_credit and made.due_on is None, "due_on", "What is owed has a due date."),
    ):
        if is_refused:
            raise OpeningBalanceInvalidError(message, field=field)


def _credit(made: OpeningBalance) -> Payment:
    """Return the money that credit is allocated as."""
    return Payment.objects.create(
        kind=PaymentKind.OPENING_BALANCE,
        bank_account="OPENING",
        bank_reference=f"{made.organization.slug} {made.reference}",
        amount=-made.amount,
        currency=made.currency,
        booked_on=made.dated_on,
        organization=made.organization,
        recorded_by=made.recorded_by,
        recorded_at=made.recorded_at,
    )


_OPENING_BALANCES: Final = """
SELECT 'opening_balance' AS event, 'opening_balance:' || b.id AS source_key, b.organization_id,
       b.currency, b.dated_on AS document_on, b.reference AS reason, x.account, x.amount
  FROM billing_openingbalance b
 CROSS JOIN LATERAL (VALUES
   (CASE WHEN b.amount > 0 THEN 'receivables' ELSE 'customer_credit' END, b.amount),
   ('opening_balance', -b.amount)) AS x(account, amount)
 WHERE b.id = %(id)s
"""
