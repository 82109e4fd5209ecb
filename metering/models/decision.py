"""Reconciliation decisions: whose evidence a person accepted where two sources differ."""

from django.conf import settings
from django.db import models

from metering.domain.reconciliation import Side
from tenants.models import Cluster

SIDE_CHOICES = [(side.value, side.value.capitalize()) for side in Side]


class ReconciliationDecision(models.Model):
    """One decision about one pod's one resource in one hour; the newest is in force.

    Rows are only ever added: a decision is changed by a later one.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    """Sanitised, as in an exception's subject."""
    side = models.CharField(max_length=16, choices=SIDE_CHOICES)
    note = models.TextField()
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField()

    class Meta:
        ordering = ["cluster", "window_start", "id"]
        indexes = [
            models.Index(fields=["cluster", "window_start"], name="reconciliation_decision_hour")
        ]

    def __str__(self) -> str:
        """Return what was decided about which pod."""
        return f"{self.pod_uid} {self.resource}: {self.side}"
