"""Two months of bills with everything that a bill can have."""

from datetime import date
from decimal import Decimal
from typing import Final

from billing.domain.documents.taxes import TaxTerms
from billing.domain.pricing.minimum import MinimumRule
from billing.services.crediting import draft_credit
from billing.services.pricing.minimums import publish_minimum
from billing.services.pricing.tiers import publish_tiers
from billing.services.taxes import set_tax_rate, set_tax_treatment
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END

LATER: Final = AT + HOUR
DECEMBER: Final = AT.replace(month=12)
JANUARY: Final = date(2026, 1, 1)


def two_months(
    slug: str = "acme", *, currency: str = "EUR", country: str = "DE", credited: str = "0.10"
) -> Ledger:
    """Make October with a tier, a minimum charge and taxes; a credit note; a late correction.

    Args:
        slug: Of the organization and its cluster.
        currency: Of its bills.
        country: Where it is taxed.
        credited: What the note gives back.
    """
    ledger = make_ledger(
        slug, cluster_slug=f"of-{slug}", bound_hours=BOUND_HOURS, billing_currency=currency
    )
    rate = TaxTerms(country, "S", Decimal(19), "")
    set_tax_rate(terms=rate, valid_from=JANUARY, actor=DORA, at=AT)
    set_tax_treatment(
        organization=ledger.organization,
        country=country,
        category="S",
        valid_from=JANUARY,
        actor=DORA,
        at=AT,
    )
    publish_tiers(price_book=ledger.book, rule=make_rule(), actor=DORA, at=AT)
    least = MinimumRule(Decimal(5), "2026-10")
    publish_minimum(organization=ledger.organization, rule=least, actor=DORA, at=AT)
    window = sealed_window(
        ledger.cluster, [Use(ledger.llm, 1001), Use(ledger.vision, 3500), Use(ledger.vision, 1501)]
    )
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    october = finalize(draft(ledger.organization, "2026-10"))
    sealed_window(ledger.cluster, [Use(ledger.llm, 3599)], start_at=MONTH_END)
    accrue_everything(at=DECEMBER)
    accrue_late(correct(window, ledger.llm, -1001))
    line = october.lines.filter(kind="usage").latest("amount")
    note = draft_credit(
        invoice_id=october.pk,
        amounts={line.pk: Decimal(credited)},
        reason="Agreed.",
        actor=DORA,
        at=LATER,
        terms=SITE_TERMS,
    )
    finalize(note)
    finalize(draft(ledger.organization, "2026-11", at=DECEMBER), at=DECEMBER)
    return ledger
