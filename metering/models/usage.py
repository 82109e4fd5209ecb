"""Usage records: whole unit-seconds per window, pod and resource; frozen by the window's seal."""

from decimal import Decimal

from django.db import models

from metering.models.correction import UsageCorrection
from metering.models.device_usage import UsageActivity
from metering.models.window import MeteringWindow
from tenants.models import Cluster, Organization, Project


class UsageRecord(models.Model):
    """What one pod used of one resource in one window.

    A view over `metering_usagerecord`, partitioned by month of `window_start`, and
    `metering_usagefact`, which has once what a pod's records repeat (ADR 0107). Its key is
    (window_start, fact_id, revision, organization). Revision 0 is the metered record, with
    `unit_seconds` = units x seconds, or a part of it. Higher revisions are corrections of a sealed
    window: `unit_seconds` is then a signed delta, and the other columns say what is known since.
    What a pod used is the sum over its revisions.
    """

    id = models.BigAutoField(primary_key=True)
    window = models.ForeignKey(MeteringWindow, on_delete=models.DO_NOTHING, related_name="records")
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, related_name="+")
    organization = models.ForeignKey(Organization, on_delete=models.DO_NOTHING, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, related_name="+")
    owner = models.CharField(max_length=150)
    """User name, or "" for unattributed."""
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    revision = models.PositiveIntegerField(default=0)
    node = models.CharField(max_length=253)
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    sharing_mode = models.CharField(max_length=16)
    share_numerator = models.PositiveIntegerField()
    share_denominator = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    split_among = models.PositiveIntegerField(default=1)
    """Pods that shared the claim at once; above 1 `unit_seconds` is this pod's part."""
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    seconds = models.IntegerField()
    unit_seconds = models.BigIntegerField()
    end_kind = models.CharField(max_length=16)
    slack_seconds = models.PositiveIntegerField(default=0)
    """How far the end may lie from `end_at`; 0 when exact."""
    correction = models.ForeignKey(
        UsageCorrection, on_delete=models.DO_NOTHING, related_name="records", null=True
    )
    """What it corrects by; None for a metered record."""
    catalogue_version = models.PositiveIntegerField()
    fact_id = models.BigIntegerField()
    """Of its pod and resource; with hour and revision it is the key of the table."""
    activity = models.ForeignObject(
        UsageActivity,
        on_delete=models.DO_NOTHING,
        from_fields=["window", "pod_uid", "resource"],
        to_fields=["window", "pod_uid", "resource"],
        related_name="+",
        null=True,
    )
    """What its devices did; None until the hour's device figures are sealed, or without any. Its
    energy is stored once, with revision 0."""

    class Meta:
        managed = False
        db_table = "metering_usage"
        ordering = ["window_start", "id"]

    def __str__(self) -> str:
        """Return the pod and its unit-seconds."""
        return f"{self.namespace}/{self.pod_name}: {self.unit_seconds} unit-seconds"

    @property
    def busy_ratio(self) -> Decimal | None:
        """Return how busy its devices were, where that is known."""
        return self.activity.busy_ratio if self.activity else None

    @property
    def busy_coverage(self) -> Decimal | None:
        """Return how much of its time that is known of."""
        return self.activity.busy_coverage if self.activity else None
