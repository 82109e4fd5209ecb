"""Minimum charges: what an organization pays for a month at least."""

from django.db import models
from django.db.models import F, Q

from tenants.domain.identifiers import new_id
from tenants.models import Organization


class MinimumCharge(models.Model):
    """An amount that an organization's month costs at least, net, from month to month.

    It is never edited. It is withdrawn while none of its months is closed, and else replaced by
    another one from a month on.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="minimum_charges"
    )
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    """For each month; 0 ends the one that it replaces."""
    currency = models.CharField(max_length=3)
    """The billing currency when it was published; documents in another one have no minimum."""
    first_month = models.CharField(max_length=7)
    last_month = models.CharField(max_length=7, blank=True, default="")
    """"" until further notice."""
    published_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    replaces = models.OneToOneField(
        "self", on_delete=models.PROTECT, related_name="replaced_by", null=True, blank=True
    )
    superseded_from = models.CharField(max_length=7, blank=True, default="")
    """The month from which another one replaces it; "" while none does."""

    class Meta:
        ordering = ["organization__slug", "first_month", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount__gte=0)
                & (Q(last_month="") | Q(last_month__gte=F("first_month"))),
                name="minimum_charge_months",
            ),
        ]

    def __str__(self) -> str:
        """Return its amount and months."""
        until = f" to {self.last_month}" if self.last_month else ""
        return f"{self.amount} {self.currency} a month from {self.first_month}{until}"
