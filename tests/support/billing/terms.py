"""Tax rates, tax treatments and tier schedules for tests."""

from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from billing.domain.documents.taxes import TaxTerms
from billing.domain.pricing.minimum import MinimumRule
from billing.domain.pricing.tier_schedule import (
    TierBand,
    TierBasis,
    TierKind,
    TierRule,
    TierScope,
    TierSpan,
)
from billing.models import PriceBook
from billing.services.pricing.minimums import publish_minimum
from billing.services.pricing.tiers import publish_tiers
from billing.services.routing import create_issuer, create_recipient, set_route
from billing.services.taxes import set_tax_rate, set_tax_treatment
from tenants.domain.actors import system_actor
from tenants.models import Organization
from tests.support.builders import AT

SEED = system_actor("seed")


def make_terms(organization: Organization, book: PriceBook) -> dict[str, UUID]:
    """Make terms to come, an issuer, a recipient and a route, and return their keys."""
    since: dict[str, Any] = {"valid_from": date(2030, 1, 1), "actor": SEED, "at": AT}
    country = "DE" if organization.slug == "acme" else "FR"
    rate = set_tax_rate(terms=TaxTerms(country, "S", Decimal(20), ""), **since)
    treatment = set_tax_treatment(organization=organization, country=country, category="S", **since)
    rule = make_rule(first_month="2031-01", last_month="2031-12")
    schedule = publish_tiers(price_book=book, rule=rule, actor=SEED, at=AT)
    minimum = publish_minimum(
        organization=organization, rule=MinimumRule(Decimal(5), "2031-01"), actor=SEED, at=AT
    )
    slug = organization.slug
    issuer = create_issuer(
        fields={"slug": slug, "name": slug, "series": country, "credit_series": f"{country}-CN"},
        actor=SEED,
        at=AT,
    )
    recipient = create_recipient(
        organization=organization, fields={"slug": slug, "name": slug}, actor=SEED, at=AT
    )
    project = organization.projects.earliest("slug")
    route = set_route(project=project, actor=SEED, at=AT)
    return {
        "issuers": issuer.pk,
        "recipients": recipient.pk,
        "project-routes": route.pk,
        "tax-rates": rate.pk,
        "tax-treatments": treatment.pk,
        "tier-schedules": schedule.pk,
        "minimum-charges": minimum.pk,
    }


def make_rule(*bands: tuple[Any, Any], **changes: Any) -> TierRule:  # noqa: ANN401 - Any attribute.
    """Return a graduated schedule by unit-hours of the organization and month: 50 % above 1."""
    fields = {
        "name": "Bulk",
        "basis": TierBasis.QUANTITY,
        "kind": TierKind.GRADUATED,
        "scope": TierScope.ORGANIZATION,
        "span": TierSpan.PERIOD,
        "first_month": "2026-10",
        "last_month": "2027-09",
        **changes,
    }
    steps = bands or ((0, 0), (1, 50))
    return TierRule(
        bands=tuple(TierBand(Decimal(above), Decimal(off)) for above, off in steps), **fields
    )
