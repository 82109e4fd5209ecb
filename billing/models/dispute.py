"""Disputes: what a customer does not accept of a final document, discussed and decided."""

from django.db import models
from django.db.models import Q

from billing.domain.ledger.disputes import DisputeState
from billing.models.invoice import Invoice, InvoiceLine
from tenants.domain.identifiers import new_id
from tenants.models import Organization

DISPUTE_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in DisputeState]


class Dispute(models.Model):
    """What is disputed of a final document, whole or by line; at most one is open of each."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="disputes"
    )
    document = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="disputes")
    state = models.CharField(
        max_length=16, choices=DISPUTE_STATE_CHOICES, default=DisputeState.OPEN.value
    )
    is_whole = models.BooleanField()
    """Whether all that was left of the document is disputed; else its lines say what is."""
    currency = models.CharField(max_length=3)
    amount = models.DecimalField(max_digits=20, decimal_places=4)
    """Net of tax."""
    reason = models.CharField(max_length=500)
    opened_by = models.CharField(max_length=200)
    opened_by_id = models.CharField(max_length=64)
    opened_at = models.DateTimeField()
    decided_by = models.CharField(max_length=200, blank=True, default="")
    decided_by_id = models.CharField(max_length=64, blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.CharField(max_length=500, blank=True, default="")
    credit_note = models.OneToOneField(
        Invoice, on_delete=models.SET_NULL, related_name="accepted_dispute", null=True, blank=True
    )
    """Of an accepted one; None again if its draft is discarded."""

    class Meta:
        ordering = ["-opened_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["document"], condition=Q(state="open"), name="dispute_open_once"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="dispute_is_of_an_amount"),
            models.CheckConstraint(
                condition=Q(state="open", decided_at__isnull=True)
                | (~Q(state="open") & Q(decided_at__isnull=False)),
                name="dispute_decided_has_time",
            ),
        ]

    def __str__(self) -> str:
        """Return of what it is, and how far it has come."""
        return f"{self.document}: {self.state}"


class DisputedLine(models.Model):
    """An amount of a line that is disputed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    dispute = models.ForeignKey(Dispute, on_delete=models.PROTECT, related_name="lines")
    line = models.ForeignKey(InvoiceLine, on_delete=models.DO_NOTHING, related_name="disputed")
    """Of a final document; the lines of a draft are deleted without being read."""
    amount = models.DecimalField(max_digits=20, decimal_places=4)

    class Meta:
        ordering = ["dispute", "line__position"]
        constraints = [
            models.UniqueConstraint(fields=["dispute", "line"], name="disputed_line_unique"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="disputed_line_has_amount"),
        ]

    def __str__(self) -> str:
        """Return the amount."""
        return f"{self.amount}"


class DisputeMessage(models.Model):
    """A message in the thread of a dispute."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    dispute = models.ForeignKey(Dispute, on_delete=models.PROTECT, related_name="messages")
    text = models.CharField(max_length=2000)
    written_by = models.CharField(max_length=200)
    written_by_id = models.CharField(max_length=64)
    written_at = models.DateTimeField()

    class Meta:
        ordering = ["written_at", "id"]

    def __str__(self) -> str:
        """Return the text."""
        return self.text
