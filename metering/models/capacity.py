"""Capacity records and cluster health: what nodes offered in an hour, and how well it served."""

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


class ClusterHealth(models.Model):
    """One row per sealed window; it also says that waste and credits of the hour were looked for.

    Availability is `ready_seconds / expected_seconds`; both None when no source knew the nodes.
    """

    window = models.OneToOneField(
        MeteringWindow, on_delete=models.PROTECT, primary_key=True, related_name="health"
    )
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    nodes = models.PositiveIntegerField()
    expected_seconds = models.BigIntegerField(null=True, blank=True)
    ready_seconds = models.BigIntegerField(null=True, blank=True)
    node_source = models.CharField(max_length=16, blank=True, default="")
    """"kubernetes" counts Ready, "prometheus" counts seen with an offer, "" knows nothing."""
    queued_pods = models.PositiveIntegerField(null=True, blank=True)
    """GPU pods that waited at some time of the hour; None without a watch."""
    pending_pods = models.PositiveIntegerField(null=True, blank=True)
    """Those that still waited at its end."""
    wait_seconds_p50 = models.PositiveIntegerField(null=True, blank=True)
    wait_seconds_max = models.PositiveIntegerField(null=True, blank=True)
    memory_errors = models.PositiveIntegerField(default=0)
    """Device events about memory: double-bit errors, remapped rows, and XIDs that tell of them."""
    failures = models.PositiveIntegerField(default=0)
    """Device events of the severity fail, of every kind."""
    devices = models.PositiveIntegerField(default=0)
    """GPUs that were measured in the hour."""
    corrections_seen = models.PositiveIntegerField(default=0, db_default=0)
    """Posted corrections of the hour when its credits were last looked at."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-window_start", "cluster"]
        verbose_name_plural = "cluster health"
        indexes = [models.Index(fields=["cluster", "-window_start"], name="cluster_health_by_time")]

    def __str__(self) -> str:
        """Return the hour."""
        return f"health at {self.window_start:%Y-%m-%dT%H}Z"
