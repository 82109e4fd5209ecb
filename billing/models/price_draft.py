"""Drafts of prices: prices of a book that are previewed, and published by another person."""

from django.db import models
from django.db.models import Q

from billing.models.price import PriceBook
from tenants.domain.identifiers import new_id


class PriceDraftState(models.TextChoices):
    """How far a draft of prices has come."""

    PROPOSED = "proposed"
    PUBLISHED = "published"
    REJECTED = "rejected"


class PriceDraft(models.Model):
    """Prices of a book from an hour on, what they change, and the decision on them."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    price_book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, related_name="drafts")
    valid_from = models.DateTimeField()
    prices = models.JSONField()
    """Size, group and price of each."""
    month = models.CharField(max_length=7)
    """Whose use the effects are of, such as "2026-10"."""
    effects = models.JSONField()
    """What that use costs by organization, at the prices in force and at these."""
    reason = models.TextField()
    state = models.CharField(
        max_length=16, choices=PriceDraftState.choices, default=PriceDraftState.PROPOSED
    )
    requested_by = models.CharField(max_length=200)
    requested_by_id = models.CharField(max_length=64)
    requested_at = models.DateTimeField()
    decided_by = models.CharField(max_length=200, blank=True, default="")
    decided_by_id = models.CharField(max_length=64, blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-requested_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="proposed", decided_at__isnull=True)
                | Q(state__in=["published", "rejected"], decided_at__isnull=False),
                name="price_draft_decided_has_time",
            ),
        ]

    def __str__(self) -> str:
        """Return the book, and how far the draft has come."""
        return f"{self.price_book} from {self.valid_from:%Y-%m-%dT%H}Z: {self.state}"
