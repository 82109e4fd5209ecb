"""Write-offs: what is open of a final document and will not be paid."""

from django.db import models
from django.db.models import Q

from billing.domain.ledger.write_offs import WriteOffState
from billing.models.invoice import Invoice
from tenants.domain.identifiers import new_id
from tenants.models import Organization

WRITE_OFF_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in WriteOffState]


class WriteOff(models.Model):
    """An amount of a final document that will not be paid; a posted one lowers what is open."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="write_offs"
    )
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="write_offs")
    state = models.CharField(
        max_length=16, choices=WRITE_OFF_STATE_CHOICES, default=WriteOffState.PROPOSED.value
    )
    currency = models.CharField(max_length=3)
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    """With tax, as what is open."""
    reason = models.CharField(max_length=500)
    requested_by = models.CharField(max_length=200)
    requested_by_id = models.CharField(max_length=64)
    requested_at = models.DateTimeField()
    decided_by = models.CharField(max_length=200, blank=True, default="")
    decided_by_id = models.CharField(max_length=64, blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.CharField(max_length=500, blank=True, default="")
    reversed_by = models.CharField(max_length=200, blank=True, default="")
    reversed_at = models.DateTimeField(null=True, blank=True)
    reversal_reason = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["-requested_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["document"], condition=Q(state="proposed"), name="write_off_proposed_once"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="write_off_is_of_an_amount"),
            models.CheckConstraint(
                condition=Q(state="proposed", decided_at__isnull=True, reversed_at__isnull=True)
                | Q(
                    state__in=["rejected", "posted"],
                    decided_at__isnull=False,
                    reversed_at__isnull=True,
                )
                | Q(state="reversed", decided_at__isnull=False, reversed_at__isnull=False),
                name="write_off_state_has_times",
            ),
        ]

    def __str__(self) -> str:
        """Return of what it is, and how far it has come."""
        return f"{self.document}: {self.state}"
