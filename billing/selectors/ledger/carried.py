"""What final documents have carried: the balance of each issuer and recipient."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.documents.carrying import CarriedBalance
from billing.domain.documents.routing import Payer
from billing.models import Invoice


@dataclass(frozen=True)
class StandingBalance:
    """A balance that is not settled.

    Attributes:
        since: The month that it is carried from.
        document_id: The last document that carried it.
    """

    issuer_id: UUID | None
    recipient_id: UUID | None
    amount: Decimal
    since: str
    document_id: UUID


def carried_balances(
    currencies: Mapping[UUID, str],
) -> dict[UUID, dict[Payer, CarriedBalance]]:
    """Return the balances of organizations; one that is settled is missing. One statement.

    Args:
        currencies: Of the balances, by organization.
    """
    balances: dict[UUID, dict[Payer, CarriedBalance]] = {payer: {} for payer in currencies}
    for payer, found in _standing(currencies):
        key = (found.issuer_id, found.recipient_id)
        balances[payer][key] = CarriedBalance(found.amount, found.since)
    return balances


def releasable_balance(invoice: Invoice) -> StandingBalance | None:
    """Return the balance of an invoice's issuer and recipient, if it is owed to the customer."""
    for _, found in _standing({invoice.organization_id: invoice.currency}):
        payer = (found.issuer_id, found.recipient_id)
        if payer == (invoice.issuer_id, invoice.recipient_id) and found.amount < 0:
            return found
    return None


def overdue_balances(*, before: str) -> list[UUID]:
    """Return the last documents of balances owed to customers since before a month; one query."""
    with connection.cursor() as cursor:
        cursor.execute(_OVERDUE, {"before": before})
        return [document_id for (document_id,) in cursor.fetchall()]


def _standing(currencies: Mapping[UUID, str]) -> list[tuple[UUID, StandingBalance]]:
    values: dict[str, Any] = {
        "organizations": list(currencies),
        "currencies": list(currencies.values()),
    }
    with connection.cursor() as cursor:
        cursor.execute(_OF_ORGANIZATIONS, values)
        return [(payer, StandingBalance(*row)) for payer, *row in cursor.fetchall()]


# A document that was voided is added up with its credit note: both together leave nothing.
_STANDING: Final = """
SELECT i.organization_id, i.issuer_id, i.recipient_id,
       sum(i.carried_forward - i.brought_forward + coalesce(p.amount, 0)) AS amount,
       (array_agg(i.document #>> '{{carried,since}}' ORDER BY i.finalized_at DESC, i.id DESC)
          FILTER (WHERE i.carried_forward <> 0))[1] AS since,
       (array_agg(i.id ORDER BY i.finalized_at DESC, i.id DESC)
          FILTER (WHERE i.carried_forward <> 0))[1] AS document_id
  FROM billing_invoice i
  LEFT JOIN billing_payment p ON p.document_id = i.id AND p.kind = 'carried'
 WHERE i.state = 'final' AND (i.carried_forward, i.brought_forward) <> (0, 0) AND {where}
 GROUP BY i.organization_id, i.currency, i.issuer_id, i.recipient_id
HAVING sum(i.carried_forward - i.brought_forward + coalesce(p.amount, 0)) <> 0
"""
_OF_ORGANIZATIONS: Final = _STANDING.format(
    where="""i.organization_id = ANY(%(organizations)s)
   AND (i.organization_id, i.currency) IN (
     SELECT * FROM unnest(%(organizations)s::uuid[], %(currencies)s::text[]))"""
)
_OVERDUE: Final = f"""
SELECT document_id FROM ({_STANDING.format(where="true")}) b
 WHERE amount < 0 AND since < %(before)s ORDER BY document_id
"""  # noqa: S608 - Put together from constants only.
