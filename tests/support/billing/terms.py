"""Tax rates, tax treatments and tier schedules for tests."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from billing.domain.documents.taxes import TaxTerms
from billing.domain.pricing.minimum import MinimumRule
from billing.domain.pricing.price_calendar import BandRule, CalendarRule
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
from billing.services.pricing.price_calendars import publish_calendar
from billing.services.pricing.tiers import publish_tiers
from billing.services.routing import create_issuer, create_recipient, set_route
from billing.services.taxes import set_tax_rate, set_tax_treatment
from tenants.domain.actors import system_actor
from tenants.models import Organization
from tests.support.billing.site import SITE_TERMS
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
    calendar = publish_calendar(
        price_book=book,
        rule=make_calendar_rule(),
        valid_from=datetime(2031, 1, 1, tzinfo=UTC),
        actor=SEED,
        at=AT,
    )
    slug = organization.slug
    issuer = create_issuer(
        fields={
            "slug": slug,
            "name": slug,
            "address": slug,
            "series": country,
            "credit_series": f"{country}-CN",
        },
        actor=SEED,
        at=AT,
        terms=SITE_TERMS,
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
        "price-calendars": calendar.pk,
    }


def make_calendar_rule(*rules: str, **changes: Any) -> CalendarRule:  # noqa: ANN401 - Any attribute.
    """Return a calendar of Berlin with a peak from Monday to Friday, from 08:00 to 20:00.

    Args:
        rules: Instead of it, such as "peak mon,tue 08:00 20:00".
        changes: Other attributes.
    """
    lines = [line.split() for line in rules or ("peak mon,tue,wed,thu,fri 08:00 20:00",)]
    bands = tuple(BandRule(band, tuple(days.split(",")), *times) for band, days, *times in lines)
    return CalendarRule(**{"time_zone": "Europe/Berlin", "bands": bands, **changes})


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
