"""Device figures: what each GPU did in an hour and for which pod, sealed apart from the bill."""

from django.db import models
from django.db.models import Q

from metering.domain.collection.windows import DeviceState
from metering.domain.devices.figures import Attribution
from metering.models.window import MeteringWindow
from tenants.models import Cluster, Organization, Project

ATTRIBUTION_CHOICES = [(kind.value, kind.value.capitalize()) for kind in Attribution]


def ratio_field() -> models.DecimalField:  # type: ignore[type-arg]
    """Return a column for a share of time, 0 to 1; None is "no data", never idle."""
    return models.DecimalField(max_digits=7, decimal_places=6, null=True)


def coverage_field() -> models.DecimalField:  # type: ignore[type-arg]
    """Return a column for how much of a figure's time was sampled, 0 to 1."""
    return models.DecimalField(max_digits=6, decimal_places=5, null=True)


DEVICE_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in DeviceState]


class DeviceWindow(models.Model):
    """The device figures of one sealed window: whether they are due, and their own seal.

    Made with the window's seal. A worker leases it by the database's clock and writes all figures
    in one transaction while its fence holds; after `sealed` or `unavailable` nothing changes.
    """

    window = models.OneToOneField(
        MeteringWindow, on_delete=models.PROTECT, primary_key=True, related_name="devices"
    )
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(
        max_length=16, choices=DEVICE_STATE_CHOICES, default=DeviceState.DUE.value
    )
    fence = models.BigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    """Leases that have not reported back; a report sets it to 0."""
    failures = models.PositiveIntegerField(default=0)
    """Answers in a row that could not be used."""
    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField()
    missing_figures = models.JSONField(default=list, blank=True)
    """Figures that no device reported: their metric is not exported, which is not 0."""
    evidence = models.JSONField(default=list, blank=True)
    """One object per query: text, time, SHA-256 of the answer, samples read."""
    row_count = models.PositiveIntegerField(default=0)
    row_digest = models.CharField(max_length=64, blank=True, default="")
    """SHA-256 over the rows in key order; "" for hours sealed before they had a seal of their own.
    """
    last_error = models.TextField(blank=True, default="")
    sealed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["window_start", "window"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state=DeviceState.COLLECTING.value, lease_until__isnull=False)
                | (~Q(state=DeviceState.COLLECTING.value) & Q(lease_until__isnull=True)),
                name="device_window_lease_only_while_collecting",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[DeviceState.DUE.value, DeviceState.COLLECTING.value])
                | Q(sealed_at__isnull=False),
                name="device_window_final_has_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(state__in=[DeviceState.DUE.value, DeviceState.COLLECTING.value]),
                name="device_window_due",
            ),
        ]

    def __str__(self) -> str:
        """Return the hour and the state."""
        return f"{self.window_start:%Y-%m-%dT%H}Z {self.state}"


class UsageActivity(models.Model):
    """What the devices of one pod's one resource did in one window; see domain.devices.Activity."""

    window = models.ForeignKey(
        MeteringWindow, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    window_start = models.DateTimeField()
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    busy_ratio = ratio_field()
    """Share of its billed time in which its devices were busy; None when not attributable."""
    busy_coverage = coverage_field()
    energy_millijoules = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["window_start", "pod_uid", "resource"]
        constraints = [
            models.UniqueConstraint(
                fields=["window", "pod_uid", "resource"], name="usage_activity_unique"
            ),
        ]

    def __str__(self) -> str:
        """Return the pod and how busy its devices were."""
        return f"{self.pod_uid}: {self.busy_ratio}"


class DeviceUsage(models.Model):
    """One device, or one MIG instance, over one stretch of one window in which it served one pod.

    Nothing is billed from it. Each figure has its own coverage: the share of the expected samples
    that were seen. A figure under 80 % coverage is still shown; a finding uses both.
    Rows are replaced whole until the hour's device figures are sealed; see DeviceWindow. This is a
    view over rows of integers, by month of `window_start`, and the facts that repeat (ADR 0108).
    """

    window = models.ForeignKey(
        MeteringWindow, on_delete=models.PROTECT, related_name="device_usage", db_index=False
    )
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    node = models.CharField(max_length=253)
    uuid = models.CharField(max_length=64)
    """Of the physical GPU, also on an instance's row."""
    model = models.CharField(max_length=128, blank=True, default="")
    instance_id = models.CharField(max_length=16, blank=True, default="")
    """MIG instance; "" for a whole GPU."""
    instance_profile = models.CharField(max_length=32, blank=True, default="")
    attribution = models.CharField(max_length=16, choices=ATTRIBUTION_CHOICES)
    namespace = models.CharField(max_length=63, blank=True, default="")
    pod_name = models.CharField(max_length=253, blank=True, default="")
    pod_uid = models.CharField(max_length=64, blank=True, default="")
    """Of the usage record it belongs to; "" unless it served that pod alone."""
    resource = models.CharField(max_length=128, blank=True, default="")
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    owner = models.CharField(max_length=150, blank=True, default="")
    size = models.CharField(max_length=16, blank=True, default="")
    """Of one unit of what the device is handed out as; "" when no rule knows it."""
    price_group = models.CharField(max_length=96, blank=True, default="")
    sharing_mode = models.CharField(max_length=16, blank=True, default="")
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    seconds = models.PositiveIntegerField()
    busy_ratio = ratio_field()
    busy_coverage = coverage_field()
    is_busy_uncertain = models.BooleanField(default=False)
    """The counter of activity stood at 0 while power and clock said otherwise; no ratio then."""
    sm_active_ratio = ratio_field()
    sm_active_coverage = coverage_field()
    tensor_active_ratio = ratio_field()
    tensor_active_coverage = coverage_field()
    dram_active_ratio = ratio_field()
    dram_active_coverage = coverage_field()
    memory_used_peak_mebibytes = models.PositiveIntegerField(null=True)
    memory_total_mebibytes = models.PositiveIntegerField(null=True)
    memory_coverage = coverage_field()
    power_mean_milliwatts = models.PositiveIntegerField(null=True)
    """Of the physical GPU, also on an instance's row."""
    power_coverage = coverage_field()
    energy_millijoules = models.BigIntegerField(null=True)
    """This row's part; the rows of one physical GPU add up to what its counter says."""
    energy_coverage = coverage_field()

    class Meta:
        managed = False
        ordering = ["window_start", "node", "uuid", "instance_id", "begin_at"]

    def __str__(self) -> str:
        """Return the device and from when."""
        device = f"{self.uuid}/{self.instance_id}" if self.instance_id else self.uuid
        return f"{device} from {self.begin_at:%Y-%m-%dT%H:%M:%SZ}"
