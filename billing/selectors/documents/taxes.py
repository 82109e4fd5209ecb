"""Which tax applies to an organization on a day."""

from datetime import date

from billing.domain.documents.taxes import TaxTerms
from billing.domain.errors import TaxRateMissingError
from billing.models import TaxRate, TaxTreatment
from tenants.models import Organization


def tax_terms_of(organization: Organization, *, tax_point: date) -> TaxTerms | None:
    """Return what taxes an organization's document; None where it has no tax treatment.

    Raises:
        TaxRateMissingError: Its country and category have no rate on that day.
    """
    in_force = {"valid_from__lte": tax_point, "withdrawn_at": None}
    treatments = TaxTreatment.objects.filter(organization=organization, **in_force)
    treatment = treatments.order_by("-valid_from").first()
    if treatment is None:
        return None
    key = {"country": treatment.country, "category": treatment.category}
    rate = TaxRate.objects.filter(**key, **in_force).order_by("-valid_from").first()
    if rate is None:
        raise TaxRateMissingError(
            "The organization's country and category have no tax rate at the tax point.",
            field="organization",
            facts={**key, "tax_point": tax_point.isoformat()},
        )
    return TaxTerms(**key, rate=rate.rate, exemption_text=rate.exemption_text)
