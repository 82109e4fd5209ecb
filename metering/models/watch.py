"""What a watch has observed: its lease and versions, its coverage, nodes, claims and the queue."""

from django.db import models
from django.db.models import F, Q

from tenants.models import Cluster


class ClusterWatch(models.Model):
    """One cluster's watch: its leader and fence; one row per watched cluster.

    Only the holder of the lease writes, and every write checks the fence.
    """

    cluster = models.OneToOneField(
        Cluster, on_delete=models.PROTECT, primary_key=True, related_name="watch"
    )
    fence = models.BigIntegerField(default=0)
    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    healthy_at = models.DateTimeField(null=True, blank=True)
    """The last heartbeat: every stream was alive and all its events were written."""
    last_error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["cluster"]

    def __str__(self) -> str:
        """Return whose watch it is."""
        return f"watch of {self.cluster_id}"


class WatchCursor(models.Model):
    """How far one kind has been read: the version of the last row that was written with it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=32)
    resource_version = models.CharField(max_length=64)
    listed_at = models.DateTimeField()
    """When the list that this stream continues was taken."""
    is_afresh = models.BooleanField(default=False, db_default=False)
    """Whether that list began anew, and no heartbeat came since: the hole before it is blind.

    It is written with the list, so that a process that died right after it hides nothing.
    """

    class Meta:
        ordering = ["cluster", "kind"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="watch_cursor_unique")
        ]

    def __str__(self) -> str:
        """Return the kind and the version."""
        return f"{self.kind} at {self.resource_version}"


class WatchSpan(models.Model):
    """A time in which the watch was healthy; each heartbeat moves its end.

    A span that was opened by resuming from a kept version lost nothing of the time before it. One
    that was opened by a list may have: what came and went in between was not seen.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    begin_at = models.DateTimeField()
    until_at = models.DateTimeField()
    is_resumed = models.BooleanField()

    class Meta:
        ordering = ["cluster", "begin_at"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "begin_at"], name="watch_span_unique"),
            models.CheckConstraint(
                condition=Q(until_at__gte=F("begin_at")), name="watch_span_forward"
            ),
        ]

    def __str__(self) -> str:
        """Return from when to when."""
        return f"{self.begin_at:%Y-%m-%dT%H:%M:%SZ} to {self.until_at:%Y-%m-%dT%H:%M:%SZ}"


class NodeRecord(models.Model):
    """What a node offered, from one change of its offer, labels or health to the next."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    node = models.CharField(max_length=253)
    node_uid = models.CharField(max_length=64)
    labels = models.JSONField(default=dict)
    """Raw GPU labels only, as sizing reads them, and the tenant the node is dedicated to."""
    allocatable = models.JSONField(default=dict)
    """Raw GPU resource names to whole units."""
    is_ready = models.BooleanField(default=True)
    is_schedulable = models.BooleanField(default=True)
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["cluster", "node", "begin_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "node"],
                condition=Q(end_at__isnull=True),
                name="node_record_one_open",
            ),
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gte=F("begin_at")),
                name="node_record_forward",
            ),
        ]
        indexes = [
            models.Index(fields=["cluster", "begin_at"], name="node_record_by_time"),
            models.Index(fields=["cluster", "node", "begin_at"], name="node_record_by_node"),
        ]

    def __str__(self) -> str:
        """Return the node."""
        return self.node


class QueuedPod(models.Model):
    """A GPU pod's way to a node: created, bound, gone. Unbound pods are only here."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    pod_uid = models.CharField(max_length=64)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    requests = models.JSONField(default=dict)
    """Raw resource name to effective units; device claims as "claim/<name>": 1.

    A request no pod can have, such as a negative one, is kept as text and makes no allocation.
    """
    priority_class = models.CharField(max_length=253, blank=True, default="")
    owner = models.CharField(max_length=150, blank=True, default="")
    """User it belongs to; the consumer of a claim has no allocation with an owner."""
    unproven_owner = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Owner in its annotation that admission did not write, and that is not believed."""
    created_at = models.DateTimeField()
    bound_at = models.DateTimeField(null=True, blank=True)
    deletion_at = models.DateTimeField(null=True, blank=True)
    """When its deletion was asked for, plus its grace; it holds until it is gone."""
    gone_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=128, blank=True, default="")
    """`status.reason` as last reported."""
    defects = models.JSONField(default=list, blank=True)
    """What of it cannot be believed, one sentence each; such a pod is for a person."""

    class Meta:
        ordering = ["cluster", "created_at"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "pod_uid"], name="queued_pod_unique")
        ]
        indexes = [
            models.Index(
                fields=["cluster", "created_at"],
                condition=Q(bound_at__isnull=True, gone_at__isnull=True),
                name="queued_pod_waiting",
            ),
            models.Index(
                fields=["cluster", "deletion_at"],
                condition=Q(gone_at__isnull=True),
                name="queued_pod_there",
            ),
        ]

    def __str__(self) -> str:
        """Return the pod."""
        return f"{self.namespace}/{self.pod_name}"


class OfferedDevice(models.Model):
    """A device that a ResourceSlice offers to claims, as last reported."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    driver = models.CharField(max_length=253)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=253)
    slice_name = models.CharField(max_length=253)
    node = models.CharField(max_length=253, blank=True, default="")
    attributes = models.JSONField(default=dict)
    """What sizing reads: type, productName and profile."""
    gone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["cluster", "driver", "pool", "device"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "driver", "pool", "device"], name="offered_device_unique"
            )
        ]

    def __str__(self) -> str:
        """Return the pool and the device."""
        return f"{self.pool}/{self.device}"


class DeviceClass(models.Model):
    """A device class as last reported, with the resource name that pods may request it by."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=253)
    extended_resource = models.CharField(max_length=317, blank=True, default="", db_default="")
    """`spec.extendedResourceName`; "" without one."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="device_class_unique")
        ]

    def __str__(self) -> str:
        """Return the class."""
        return self.name


class ClaimConsumer(models.Model):
    """A pod that a ResourceClaim was reserved for, from when to when."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    claim_uid = models.CharField(max_length=64)
    pod_uid = models.CharField(max_length=64)
    pod_name = models.CharField(max_length=253)
    owner = models.CharField(max_length=150, blank=True, default="")
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["cluster", "claim_uid", "begin_at", "pod_uid"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "claim_uid", "pod_uid", "begin_at"], name="claim_consumer_unique"
            ),
        ]
        indexes = [models.Index(fields=["cluster", "pod_uid"], name="claim_consumer_by_pod")]

    def __str__(self) -> str:
        """Return the pod."""
        return self.pod_name
