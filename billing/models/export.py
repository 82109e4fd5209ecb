"""Scheduled exports: schedules, their runs, and the files of a run with their content."""

from django.db import models
from django.db.models import Q

from billing.domain.exports.schedules import ExportRunState, ExportTarget, remedy_of
from tenants.domain.identifiers import new_id
from tenants.domain.notifications import EndpointKind, masked_address
from tenants.models import Organization
from tenants.models.organization import SLUG, LifecycleState

TARGET_CHOICES = [
    (ExportTarget.MAIL.value, "Mail"),
    (ExportTarget.BUCKET.value, "S3 bucket"),
    (ExportTarget.SFTP.value, "SFTP"),
    (ExportTarget.WEBHOOK.value, "Webhook"),
]
RUN_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in ExportRunState]


class ExportSchedule(models.Model):
    """What of each month is delivered where, on a day of the next month.

    `secret_reference` names a variable; the secret itself is never stored here.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="export_schedules",
        null=True,
        blank=True,
    )
    """None for all organizations."""
    contents = models.JSONField(default=list)
    """Of `billing.domain.exports.schedules.CONTENTS`."""
    target = models.CharField(max_length=16, choices=TARGET_CHOICES)
    address = models.CharField(max_length=500)
    host_key = models.CharField(max_length=2100, blank=True, default="")
    """The public key of an SFTP server, as one line."""
    secret_reference = models.CharField(max_length=200, blank=True, default="")
    day = models.PositiveSmallIntegerField(default=2)
    """Of the month after the exported one, 1 to 28."""
    hour = models.PositiveSmallIntegerField(default=6)
    """In UTC."""
    waits_for_close = models.BooleanField(default=True)
    """Whether a run waits until every billing period of the month is closed."""
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(day__gte=1, day__lte=28, hour__lte=23), name="export_schedule_time"
            ),
        ]

    def __str__(self) -> str:
        """Return the slug."""
        return self.slug

    @property
    def shown_address(self) -> str:
        """Return where files go as it may be read: of a webhook without tokens."""
        is_webhook = self.target == ExportTarget.WEBHOOK
        kind = EndpointKind.WEBHOOK if is_webhook else EndpointKind.MAIL
        return masked_address(kind, self.address)


class ExportRun(models.Model):
    """One export of a month: its files are of one snapshot, and delivered in their order."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    schedule = models.ForeignKey(ExportSchedule, on_delete=models.PROTECT, related_name="runs")
    month = models.CharField(max_length=7)
    """The exported month, such as "2026-10"."""
    number = models.PositiveSmallIntegerField(default=1)
    """Among the runs of the schedule for the month; the first is the scheduled one."""
    state = models.CharField(
        max_length=16, choices=RUN_STATE_CHOICES, default=ExportRunState.PENDING.value
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    """Failed ones since a file was delivered last."""
    next_at = models.DateTimeField()
    """When it is tried next; during an attempt, when its lease ends."""
    fence = models.PositiveIntegerField(default=0)
    """Counts leases; what a worker writes after losing its lease is refused by it."""
    note = models.CharField(max_length=300, blank=True, default="")
    """What it waits for, or why the last attempt failed."""
    reason = models.CharField(max_length=40, blank=True, default="")
    """A code of the failure; "" without one."""
    requested_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    staged_at = models.DateTimeField(null=True, blank=True)
    """When its files were made: the time of their snapshot."""
    finished_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)
    """When the content of its files was deleted; names and digests stay."""

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "month", "number"], name="export_run_unique"
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(staged_at__isnull=False, finished_at__isnull=False),
                name="export_run_done_has_times",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"],
                condition=Q(state__in=["pending", "delivering"]),
                name="export_run_due",
            ),
        ]

    def __str__(self) -> str:
        """Return the schedule and the month."""
        number = f", run {self.number}" if self.number > 1 else ""
        return f"{self.schedule} {self.month}{number}"

    @property
    def remedy(self) -> str:
        """What to do about the last failure; "" without one."""
        return remedy_of(self.reason)


class ExportFile(models.Model):
    """A file of a run, made once and always delivered under its name."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(ExportRun, on_delete=models.PROTECT, related_name="files")
    position = models.PositiveSmallIntegerField()
    content = models.CharField(max_length=64)
    """Of `CONTENTS`."""
    name = models.CharField(max_length=200)
    content_type = models.CharField(max_length=100)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["run", "position"]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="export_file_position"),
            models.UniqueConstraint(fields=["run", "name"], name="export_file_name"),
        ]

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class ExportChunk(models.Model):
    """A part of a file's content, kept until the run is purged."""

    file = models.ForeignKey(ExportFile, on_delete=models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering = ["file", "position"]
        constraints = [
            models.UniqueConstraint(fields=["file", "position"], name="export_chunk_position"),
        ]

    def __str__(self) -> str:
        """Return the position."""
        return f"{self.position}"
