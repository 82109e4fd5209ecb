"""Metering exceptions, and decisions about which of two sources is right."""

from django.conf import settings
from django.db import models
from django.db.models import Func
from django.db.models.functions import Greatest

from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.exceptions import SUBJECT_MAX, ExceptionKind
from metering.models.window import MeteringWindow
from tenants.models import Cluster

KIND_CHOICES = [(kind.value, kind.value.replace("_", " ").capitalize()) for kind in ExceptionKind]


class ExceptionState(models.TextChoices):
    """Whether it still needs a decision."""

    OPEN = "open"
    RESOLVED = "resolved"


_INCIDENT = Func(
    "cluster",
    "kind",
    "namespace",
    "subject",
    "details",
    function="metering_incident",
    output_field=models.UUIDField(),
)


class MeteringException(models.Model):
    """One cause in one window about one subject; nothing is billed for it while it is open."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="exceptions")
    window = models.ForeignKey(MeteringWindow, on_delete=models.PROTECT, related_name="exceptions")
    window_start = models.DateTimeField()
    kind = models.CharField(max_length=32, choices=KIND_CHOICES)
    subject = models.CharField(max_length=SUBJECT_MAX)
    """What it is about: a pod's uid and resource, a node, or "" for the window as a whole."""
    namespace = models.CharField(max_length=63, blank=True, default="")
    summary = models.TextField()
    remedy = models.TextField()
    held_unit_seconds = models.BigIntegerField(default=0)
    """Units x seconds seen but not billed."""
    details = models.JSONField(default=dict)
    state = models.CharField(
        max_length=16, choices=ExceptionState.choices, default=ExceptionState.OPEN
    )
    created_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    resolution = models.TextField(blank=True, default="")
    incident = models.GeneratedField(
        expression=_INCIDENT, output_field=models.UUIDField(), db_persist=True
    )
    """The same for all of one cause about one namespace, device or node of one cluster."""

    class Meta:
        ordering = ["-window_start", "kind", "subject"]
        constraints = [
            models.UniqueConstraint(
                fields=["window", "kind", "subject"], name="metering_exception_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "-window_start"], name="metering_exception_open"),
            models.Index(fields=["incident", "window_start"], name="metering_exception_alike"),
            models.Index(Greatest("created_at", "resolved_at"), name="metering_exception_updated"),
        ]

    def __str__(self) -> str:
        """Return the cause and its subject."""
        return f"{self.get_kind_display()}: {self.subject}"


SIDE_CHOICES = [(side.value, side.value.capitalize()) for side in Side]


class ReconciliationDecision(models.Model):
    """One decision about one pod's one resource in one hour; the newest is in force.

    Rows are only ever added: a decision is changed by a later one. What the accepted source
    reported at the decision is kept with it, since a source may purge it later.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    """Sanitised, as in an exception's subject."""
    side = models.CharField(max_length=16, choices=SIDE_CHOICES)
    namespace = models.CharField(max_length=253, blank=True, default="", db_default="")
    known_as = models.CharField(max_length=16, blank=True, default="", db_default="")
    """How that side knew the end; "" when it reported that the pod did not exist."""
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
