"""Terms of organizations, and what documents billed of them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from billing.domain.documents.composing import TermFacts
from billing.domain.documents.hardware_credits import CreditFacts
from billing.domain.documents.minimums import MinimumFacts
from billing.selectors.documents.hardware_credits import credit_facts_of
from billing.selectors.documents.minimums import minimum_facts_of
from billing.selectors.documents.tiers import tier_facts_of


def term_facts_of(
    currencies: Mapping[UUID, str], *, own_ids: Sequence[UUID] = (), replaced_id: UUID | None = None
) -> dict[UUID, TermFacts]:
    """Return what the lines of organizations' documents are computed from; three statements.

    Args:
        currencies: Of the documents, by organization; documents in another one count apart.
        own_ids: Drafts of a run whose own lines are read, too.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    tiers = tier_facts_of(currencies, own_ids=own_ids, replaced_id=replaced_id)
    minimums = minimum_facts_of(currencies, own_ids=own_ids, replaced_id=replaced_id)
    credited = credit_facts_of(currencies, own_ids=own_ids, replaced_id=replaced_id)
    return {
        key: TermFacts(
            tiers=tiers[key],
            minimums=minimums.get(key, MinimumFacts()),
            credited=credited.get(key, CreditFacts()),
        )
        for key in currencies
    }
