"""Which tax applies to an organization on a day."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import date
from uuid import UUID

from billing.domain.documents.taxes import TaxKey, TaxTerms
from billing.domain.errors import TaxRateMissingError
from billing.models import Recipient, TaxRate, TaxTreatment


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
