"""Which tax applies to an organization on a day."""

from datetime import date

from billing.domain.documents.taxes import TaxTerms
from billing.domain.errors import TaxRateMissingError
from billing.models import Recipient, TaxRate, TaxTreatment
from tenants.models import Organization


def tax_terms_of(
    organization: Organization, *, recipient: Recipient | None = None, tax_point: date
) -> TaxTerms | None:
    """Return what taxes a document of an organization; None where nothing says how it is taxed.

    Args:
        organization: Whose use it is.
        recipient: The party billed, whose own country and category come first.
        tax_point: The day of the rate.

    Raises:
        TaxRateMissingError: The country and category have no rate on that day.
    """
    in_force = {"valid_from__lte": tax_point, "withdrawn_at": None}
    if recipient is not None and recipient.tax_category:
        key = {"country": recipient.tax_country, "category": recipient.tax_category}
    else:
        treatments = TaxTreatment.objects.filter(organization=organization, **in_force)
        treatment = treatments.order_by("-valid_from").first()
        if treatment is None:
            return None
        key = {"country": treatment.country, "category": treatment.category}
    rate = TaxRate.objects.filter(**key, **in_force).order_by("-valid_from").first()
    if rate is None:
        raise TaxRateMissingError(
            "The customer's country and category have no tax rate at the tax point.",
            field="organization",
            facts={**key, "tax_point": tax_point.isoformat()},
        )
    return TaxTerms(**key, rate=rate.rate, exemption_text=rate.exemption_text)
