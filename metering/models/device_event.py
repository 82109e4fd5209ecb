"""Device events: what went wrong on a GPU, with its evidence, written once."""

from django.db import models
from django.db.models import F, Q

from metering.domain.devices.error_tables import EventKind, EventSeverity
from metering.models.window import MeteringWindow
from tenants.models import Cluster

KIND_CHOICES = [(kind.value, kind.value.replace("_", " ").capitalize()) for kind in EventKind]
SEVERITY_CHOICES = [(level.value, level.value.capitalize()) for level in EventSeverity]


class DeviceEvent(models.Model):
    """One change for the worse on one device or MIG instance.

    `end_at` is None while it is not known that the device is sound again: a person ends it when the
    device was drained or repaired. Levels that were watched have an end of their own.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window = models.ForeignKey(MeteringWindow, on_delete=models.PROTECT, related_name="+")
    node = models.CharField(max_length=253)
    uuid = models.CharField(max_length=64)
    instance_id = models.CharField(max_length=16, blank=True, default="")
    """MIG instance; "" for a whole GPU."""
    instance_profile = models.CharField(max_length=32, blank=True, default="")
    kind = models.CharField(max_length=16, choices=KIND_CHOICES)
    code = models.CharField(max_length=64)
    """The XID, the health watch, or which counter of the kind."""
    severity = models.CharField(max_length=16, choices=SEVERITY_CHOICES)
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True, blank=True)
    metric = models.CharField(max_length=128)
    value_before = models.DecimalField(max_digits=38, decimal_places=6, null=True, blank=True)
    """None when it was not seen."""
    value_after = models.DecimalField(max_digits=38, decimal_places=6)
    evidence = models.JSONField(default=dict)
    """The query, its time and the SHA-256 of its answer."""
    note = models.TextField(blank=True, default="")
    """Why a person ended it."""

    class Meta:
        ordering = ["-begin_at", "uuid", "kind", "code"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "uuid", "instance_id", "kind", "code", "begin_at"],
                name="device_event_unique",
            ),
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gte=F("begin_at")),
                name="device_event_forward",
            ),
        ]
        indexes = [
            models.Index(fields=["cluster", "node", "begin_at"], name="device_event_by_node"),
        ]

    def __str__(self) -> str:
        """Return the device and what went wrong."""
        return f"{self.uuid}: {self.kind} {self.code}"
