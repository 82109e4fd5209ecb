"""Tax rates by country and category, and which of them organizations are taxed by."""

from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.models import Organization

CATEGORY_CHOICES = [
    ("S", "S: standard rate"),
    ("Z", "Z: zero rated"),
    ("E", "E: exempt"),
    ("AE", "AE: reverse charge"),
    ("O", "O: outside the scope of tax"),
]


class TaxRate(models.Model):
    """The rate of a category in a country, for tax points from a day up to the next one's first.

    It is never edited. A wrong one is withdrawn; documents that are final keep what they show.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    country = models.CharField(max_length=2)
    category = models.CharField(max_length=2, choices=CATEGORY_CHOICES)
    rate = models.DecimalField(max_digits=7, decimal_places=4)
    """Percent."""
    exemption_text = models.CharField(max_length=500, blank=True, default="")
    valid_from = models.DateField()
    published_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["country", "category", "valid_from", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["country", "category", "valid_from"],
                condition=Q(withdrawn_at__isnull=True),
                name="tax_rate_unique",
            ),
            models.CheckConstraint(
                condition=Q(category="S", rate__gt=0, rate__lte=100)
                | Q(category__in=["Z", "E", "AE", "O"], rate=0),
                name="tax_rate_fits_category",
            ),
            models.CheckConstraint(
                condition=Q(category__in=["E", "AE", "O"], exemption_text__gt="")
                | Q(category__in=["S", "Z"], exemption_text=""),
                name="tax_rate_explains_exemption",
            ),
        ]

    def __str__(self) -> str:
        """Return category, country, rate and first day."""
        return f"{self.country} {self.category} {self.rate.normalize():f} % from {self.valid_from}"


class TaxTreatment(models.Model):
    """How an organization is taxed, for tax points from a day up to the next one's first."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="tax_treatments"
    )
    country = models.CharField(max_length=2)
    category = models.CharField(max_length=2, choices=CATEGORY_CHOICES)
    valid_from = models.DateField()
    published_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["organization__slug", "valid_from", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "valid_from"],
                condition=Q(withdrawn_at__isnull=True),
                name="tax_treatment_unique",
            ),
            models.CheckConstraint(
                condition=Q(category__in=["S", "Z", "E", "AE", "O"]),
                name="tax_treatment_category",
            ),
        ]

    def __str__(self) -> str:
        """Return the organization, its category and first day."""
        return f"{self.organization}: {self.country} {self.category} from {self.valid_from}"
