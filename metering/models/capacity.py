"""Capacity records: what a node offered in an hour, against what was billed of it."""

from django.db import models
from django.db.models import F, Q

from metering.models.window import MeteringWindow
from tenants.models import Cluster


class CapacityRecord(models.Model):
    """One node's one resource in one window: capacity = billed + held + idle, in unit-seconds."""

    window = models.ForeignKey(
        MeteringWindow, on_delete=models.CASCADE, related_name="capacity_records"
    )
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    node = models.CharField(max_length=253)
    resource = models.CharField(max_length=128)
    size = models.CharField(max_length=16, blank=True, default="")
    """"" when no rule knows the resource."""
    price_group = models.CharField(max_length=96, blank=True, default="")
    sharing_mode = models.CharField(max_length=16, blank=True, default="", db_default="")
    """How its units are handed out; "" when no rule knows the resource."""
    share_numerator = models.PositiveIntegerField(default=1)
    share_denominator = models.PositiveIntegerField(default=1)
    allocatable_units = models.PositiveIntegerField()
    capacity_unit_seconds = models.BigIntegerField()
    billed_unit_seconds = models.BigIntegerField()
    held_unit_seconds = models.BigIntegerField()
    """Seen in use but under an open exception."""
    idle_unit_seconds = models.BigIntegerField()

    class Meta:
        ordering = ["window_start", "node", "resource"]
        constraints = [
            models.UniqueConstraint(
                fields=["window", "node", "resource"], name="capacity_record_unique"
            ),
            models.CheckConstraint(
                condition=Q(
                    capacity_unit_seconds=F("billed_unit_seconds")
                    + F("held_unit_seconds")
                    + F("idle_unit_seconds")
                ),
                name="capacity_adds_up",
            ),
        ]

    def __str__(self) -> str:
        """Return the node and the resource."""
        return f"{self.node} {self.resource}"
