"""Which tax applies to an organization on a day."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import date
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.documents.taxes import TaxKey, TaxTerms
from billing.domain.errors import TaxRateMissingError
from billing.models import Recipient, TaxRate, TaxTreatment
from billing.selectors.documents.minimums import IN_FORCE
from tenants.models import Organization
from tenants.models.organization import LifecycleState


def treatments_of(organization_ids: Collection[UUID], *, tax_point: date) -> dict[UUID, TaxKey]:
    """Return how organizations are taxed; one of which nothing says it is missing. One statement.

    Args:
        organization_ids: Any.
        tax_point: The day of the treatment.
    """
    treatments = TaxTreatment.objects.filter(
        organization__in=organization_ids, valid_from__lte=tax_point, withdrawn_at=None
    )
    latest = treatments.order_by("organization", "-valid_from").distinct("organization")
    fields = latest.values_list("organization", "country", "category")
    return {payer: TaxKey(country, category) for payer, country, category in fields}


def organizations_without_rate(*, tax_point: date) -> list[tuple[str, TaxKey]]:
    """Return by what active organizations and their recipients are taxed that has no rate.

    Args:
        tax_point: The day of the treatment and of the rate.
    """
    slugs = dict(Organization.objects.filter(state=LifecycleState.ACTIVE).values_list("pk", "slug"))
    taxed = [
        (slugs[payer], tax) for payer, tax in treatments_of(slugs, tax_point=tax_point).items()
    ]
    recipients = Recipient.objects.filter(organization__in=slugs).exclude(tax_category="")
    taxed += [
        (slug, TaxKey(country, category))
        for slug, country, category in recipients.values_list(
            "organization__slug", "tax_country", "tax_category"
        )
    ]
    rates = TaxRate.objects.filter(valid_from__lte=tax_point, withdrawn_at=None)
    rated = set(rates.values_list("country", "category"))
    return sorted(
        {one for one in taxed if (one[1].country, one[1].category) not in rated},
        key=lambda one: (one[0], one[1].country, one[1].category),
    )


def missing_rates(
    period_ids: Collection[UUID], *, label: str, tax_point: date
) -> dict[UUID, list[TaxKey]]:
    """Return what months are taxed by that has no rate; one where all is there is missing.

    One statement. A month is taxed as its organization is, and where a recipient of its projects
    has a treatment of its own, by that.

    Args:
        period_ids: At most one of each organization.
        label: Of all of them.
        tax_point: Of that label.
    """
    given: dict[str, Any] = {"periods": list(period_ids), "label": label, "tax_point": tax_point}
    missing: dict[UUID, list[TaxKey]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, given)
        for period_id, country, category in cursor.fetchall():
            missing.setdefault(period_id, []).append(TaxKey(country, category))
    return missing


# Only of projects whose rate is missing it is read whether the month bills anything of them. A
# minimum charge is split over the projects with use; without any, the oldest project pays it.
_MISSING: Final = f"""
WITH due AS MATERIALIZED (
  SELECT id, organization_id FROM billing_billingperiod WHERE id = ANY(%(periods)s)
),
treated AS MATERIALIZED (
  SELECT DISTINCT ON (t.organization_id) t.organization_id, t.country, t.category
    FROM billing_taxtreatment t JOIN due d USING (organization_id)
   WHERE t.valid_from <= %(tax_point)s AND t.withdrawn_at IS NULL
   ORDER BY t.organization_id, t.valid_from DESC
),
taxed AS MATERIALIZED (
  SELECT d.id, d.organization_id, p.id AS project_id,
         coalesce(nullif(r.tax_country, ''), t.country) AS country,
         coalesce(nullif(r.tax_category, ''), t.category) AS category
    FROM due d
    JOIN tenants_project p ON p.organization_id = d.organization_id
    LEFT JOIN treated t ON t.organization_id = d.organization_id
    LEFT JOIN billing_projectroute o ON o.project_id = p.id
    LEFT JOIN billing_recipient r ON r.id = o.recipient_id
),
missing AS MATERIALIZED (
  SELECT x.* FROM taxed x
   WHERE x.category IS NOT NULL AND NOT EXISTS (
     SELECT FROM billing_taxrate f
      WHERE (f.country, f.category) = (x.country, x.category)
        AND f.valid_from <= %(tax_point)s AND f.withdrawn_at IS NULL)
)
SELECT DISTINCT x.id, x.country, x.category
  FROM missing x
 WHERE EXISTS (
         SELECT FROM billing_charge c WHERE c.period_id = x.id AND c.project_id = x.project_id)
    OR ({IN_FORCE.format(organization="x.organization_id", label="%(label)s")}
        AND NOT EXISTS (SELECT FROM billing_charge c WHERE c.period_id = x.id)
        AND x.project_id = (SELECT p.id FROM tenants_project p
                             WHERE p.organization_id = x.organization_id
                             ORDER BY p.created_at, p.slug LIMIT 1))
 ORDER BY 1, 2, 3
"""  # noqa: S608 - Put together from constants only.


def tax_terms_of(
    treatment: TaxKey | None, *, recipient: Recipient | None = None, tax_point: date
) -> TaxTerms | None:
    """Return what taxes a document of an organization; None where nothing says how it is taxed.

    Args:
        treatment: Of the organization whose use it is.
        recipient: The party billed, whose own country and category come first.
        tax_point: The day of the rate.

    Raises:
        TaxRateMissingError: The country and category have no rate on that day.
    """
    if recipient is not None and recipient.tax_category:
        treatment = TaxKey(recipient.tax_country, recipient.tax_category)
    elif treatment is None:
        return None
    key = asdict(treatment)
    rates = TaxRate.objects.filter(**key, valid_from__lte=tax_point, withdrawn_at=None)
    rate = rates.order_by("-valid_from").first()
    if rate is None:
        raise TaxRateMissingError(
            f"There is no tax rate of {key['country']}, category {key['category']}, "
            f"on the tax point {tax_point}.",
            field="organization",
            facts={**key, "tax_point": tax_point.isoformat()},
        )
    return TaxTerms(**key, rate=rate.rate, exemption_text=rate.exemption_text)
