"""Changes of prices that another person decides: drafts of a book, and repricings of a month."""

from django.db import models
from django.db.models import Q

from billing.models.period import BillingPeriod
from billing.models.price import PriceBook
from tenants.domain.identifiers import new_id
from tenants.models import Organization


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


class RepricingState(models.TextChoices):
    """How far a repricing has come."""

    PROPOSED = "proposed"
    POSTED = "posted"
    REJECTED = "rejected"


class Repricing(models.Model):
    """What an organization's month was charged at and should have been, and its decision.

    Its charges have its id: for each wrong one the same unit-seconds, negative, and those at the
    right price. They are posted like late usage, to a month that is open.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="repricings"
    )
    period = models.ForeignKey(BillingPeriod, on_delete=models.PROTECT, related_name="repricings")
    state = models.CharField(
        max_length=16, choices=RepricingState.choices, default=RepricingState.PROPOSED
    )
    reason = models.TextField()
    changes = models.JSONField()
    """The preview: unit-seconds by project, size, group, price before and price after."""
    currency = models.CharField(max_length=3)
    before = models.DecimalField(max_digits=20, decimal_places=4)
    after = models.DecimalField(max_digits=20, decimal_places=4)
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
                | Q(state__in=["posted", "rejected"], decided_at__isnull=False),
                name="repricing_decided_has_time",
            ),
        ]

    def __str__(self) -> str:
        """Return which month is repriced."""
        return f"Repricing of {self.period}"
