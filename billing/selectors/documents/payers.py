"""What documents take from their organization beside lines and parties, read for many in one go."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from billing.domain.documents.carrying import CarriedBalance
from billing.domain.documents.routing import Payer
from billing.domain.documents.taxes import TaxKey, tax_point_of
from billing.selectors.documents.taxes import treatments_of
from billing.selectors.ledger.carried import carried_balances


@dataclass(frozen=True)
class PayerFacts:
    """How an organization is taxed, and what its documents have carried.

    Attributes:
        treatment: None where nothing says how it is taxed.
        balances: By issuer and recipient.
    """

    treatment: TaxKey | None
    balances: Mapping[Payer, CarriedBalance]


def payer_facts_of(currencies: Mapping[UUID, str], *, label: str) -> dict[UUID, PayerFacts]:
    """Return the facts of organizations in a month; two statements.

    Args:
        currencies: Of their documents, by organization.
        label: The month, such as "2026-10".
    """
    treatments = treatments_of(currencies, tax_point=tax_point_of(label))
    balances = carried_balances(currencies)
    return {payer: PayerFacts(treatments.get(payer), balances[payer]) for payer in currencies}
