"""Reconciliation decisions: whose evidence a person accepted where two sources differ."""

from django.conf import settings
from django.db import models

from metering.domain.reconciliation import Side
from tenants.models import Cluster

SIDE_CHOICES = [(side.value, side.value.capitalize()) for side in Side]


class ReconciliationDecision(models.Model):
    """One decision about one pod's one resource in one hour; the newest is in force.

    Rows are only ever added: a decision is changed by a later one. What the accepted source told
    when the person decided is kept with it, since a source may forget it later.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    """Sanitised, as in an exception's subject."""
    side = models.CharField(max_length=16, choices=SIDE_CHOICES)
    namespace = models.CharField(max_length=253, blank=True, default="", db_default="")
    known_as = models.CharField(max_length=16, blank=True, default="", db_default="")
    """How that side knew the end; "" when it told that the pod was not there."""
    begin_at = models.DateTimeField(null=True, blank=True)
    end_at = models.DateTimeField(null=True, blank=True)
    """None while it was open."""
    slack_seconds = models.PositiveIntegerField(default=0, db_default=0)
    units = models.PositiveIntegerField(default=0, db_default=0)
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
