"""Cluster health: how well a cluster served in one hour: nodes, queue and device errors."""

from django.db import models

from metering.models.window import MeteringWindow
from tenants.models import Cluster


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
