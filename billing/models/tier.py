"""Tier schedules: discounts of a price book by how much is used."""

from django.db import models
from django.db.models import F, Q

from billing.models.price import PriceBook
from tenants.domain.identifiers import new_id

BASIS_CHOICES = [("quantity", "Unit-hours"), ("money", "List money")]
TIER_KIND_CHOICES = [("graduated", "Graduated"), ("volume", "Volume")]
SCOPE_CHOICES = [("project", "Project"), ("organization", "Organization")]
SPAN_CHOICES = [("period", "Period"), ("fiscal_year", "Fiscal year")]


class TierSchedule(models.Model):
    """Bands of a discount on the list money of a book's organizations, from month to month.

    It is never edited. It is withdrawn while none of its months is closed, and else replaced by
    another one from a month on.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    price_book = models.ForeignKey(
        PriceBook, on_delete=models.PROTECT, related_name="tier_schedules"
    )
    name = models.CharField(max_length=200)
    basis = models.CharField(max_length=16, choices=BASIS_CHOICES)
    kind = models.CharField(max_length=16, choices=TIER_KIND_CHOICES)
    scope = models.CharField(max_length=16, choices=SCOPE_CHOICES)
    span = models.CharField(max_length=16, choices=SPAN_CHOICES)
    year_begins = models.PositiveSmallIntegerField(default=1)
    """The first month of a fiscal year, 1 to 12."""
    sizes = models.JSONField(default=list, blank=True)
    """In scope; none for all."""
    price_groups = models.JSONField(default=list, blank=True)
    """In scope, as prices have them; none for all."""
    first_month = models.CharField(max_length=7)
    last_month = models.CharField(max_length=7)
    bands = models.JSONField()
    """Exclusive lower bound and discount in percent of each, as text, from the lowest on."""
    published_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    replaces = models.OneToOneField(
        "self", on_delete=models.PROTECT, related_name="replaced_by", null=True, blank=True
    )
    superseded_from = models.CharField(max_length=7, blank=True, default="", db_default="")
    """The month from which another one replaces it; "" while none does."""

    class Meta:
        ordering = ["price_book__slug", "first_month", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    year_begins__gte=1, year_begins__lte=12, last_month__gte=F("first_month")
                ),
                name="tier_schedule_months",
            ),
        ]

    def __str__(self) -> str:
        """Return its name and months."""
        return f"{self.name} from {self.first_month} to {self.last_month}"
