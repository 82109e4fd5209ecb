"""Request policies: who decides what, and what is approved without a person."""

from django.db import models

from tenants.domain.identifiers import new_id
from tenants.models import Organization


class RequestPolicy(models.Model):
    """How the requests of an organization are decided; the one without an organization is for all.

    What the columns mean is written in quotas/domain/routing.py and policy_input.py.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.OneToOneField(
        Organization,
        on_delete=models.PROTECT,
        related_name="request_policy",
        null=True,
        blank=True,
    )
    currency = models.CharField(max_length=3, blank=True, default="")
    """Of every amount of the policy; "" where it has none."""
    steps = models.JSONField(default=list)
    """[{"level": "finance", "units_from": {"large": 16}, "cost_from": "10000"}], in their order."""
    automatic_units = models.JSONField(default=dict, blank=True)
    """{"small": 4}: the largest wanted total that is approved without a person."""
    automatic_cost = models.DecimalField(max_digits=20, decimal_places=4, null=True, blank=True)
    escalate_after_hours = models.PositiveIntegerField(null=True, blank=True)
    expire_after_days = models.PositiveIntegerField(default=30)
    remind_days = models.PositiveIntegerField(default=7)
    """So long before a grant ends its holder is told to renew."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "id"]
        verbose_name_plural = "request policies"
        constraints = [
            models.UniqueConstraint(
                fields=["organization"],
                name="request_policy_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        """Return whose it is."""
        return "Every other organization" if self.organization is None else str(self.organization)
