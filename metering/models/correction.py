"""Rechecks of sealed windows, and the corrections that come of them or of a person."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Greatest

from metering.domain.corrections.correction import (
    CorrectionCause,
    CorrectionState,
    RecheckReason,
    RecheckState,
)
from metering.models.window import MeteringWindow
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project

REASON_CHOICES = [(reason.value, reason.value.capitalize()) for reason in RecheckReason]
RECHECK_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in RecheckState]
CAUSE_CHOICES = [
    (cause.value, cause.value.replace("_", " ").capitalize()) for cause in CorrectionCause
]
STATE_CHOICES = [(state.value, state.value.capitalize()) for state in CorrectionState]


class WindowRecheck(models.Model):
    """One more check of a sealed window; due by time or by a cause, each once.

    A worker claims it as it claims a window: by a lease of the database's clock and a fence.
    """

    window = models.ForeignKey(MeteringWindow, on_delete=models.PROTECT, related_name="rechecks")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    reason = models.CharField(max_length=16, choices=REASON_CHOICES)
    key = models.CharField(max_length=64)
    """What distinguishes it from others of its reason: seconds, a binding, a version, a moment."""
    after_seconds = models.PositiveIntegerField(null=True, blank=True)
    """How long after the window's end the clock asks for it; None for other reasons."""
    note = models.TextField(blank=True, default="")
    requested_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    state = models.CharField(
        max_length=16, choices=RECHECK_STATE_CHOICES, default=RecheckState.DUE.value
    )
    not_before = models.DateTimeField()
    fence = models.BigIntegerField(default=0, db_default=0)
    attempt = models.PositiveIntegerField(default=0, db_default=0)
    """Claims that have not reported back; a report sets it to 0."""
    failures = models.PositiveIntegerField(default=0, db_default=0)
    lease_owner = models.CharField(max_length=64, blank=True, default="", db_default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    queried_at = models.DateTimeField(null=True, blank=True)
    """The time of the source query, never of the commit."""
    evidence = models.JSONField(default=list, blank=True, db_default=[])
    outcome = models.JSONField(default=dict, blank=True, db_default={})
    """Unit-seconds posted, proposed and unproven, and records no longer seen."""
    last_error = models.TextField(blank=True, default="", db_default="")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-not_before", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["window", "reason", "key"], name="window_recheck_unique"
            ),
            models.CheckConstraint(
                condition=Q(state=RecheckState.CHECKING.value, lease_until__isnull=False)
                | (~Q(state=RecheckState.CHECKING.value) & Q(lease_until__isnull=True)),
                name="window_recheck_lease_only_while_checking",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(state__in=["due", "checking"]),
                name="window_recheck_due",
            ),
        ]

    def __str__(self) -> str:
        """Return the hour and the reason."""
        return f"{self.window_start:%Y-%m-%dT%H}Z {self.reason}"


class UsageCorrection(models.Model):
    """Signed unit-seconds added to the records of one project in one sealed window, and why.

    Posted, its records stand in the usage ledger as revisions from 1 on, exactly those listed here,
    and nothing of it ever changes. What was billed before is not touched: billing charges it as
    it charges usage, at the price of its hour.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    window = models.ForeignKey(MeteringWindow, on_delete=models.PROTECT, related_name="corrections")
    window_start = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    cause = models.CharField(max_length=16, choices=CAUSE_CHOICES)
    reason = models.TextField()
    recheck = models.ForeignKey(
        WindowRecheck, on_delete=models.PROTECT, related_name="corrections", null=True, blank=True
    )
    evidence = models.JSONField(default=list, blank=True)
    """One object per query: text, time, SHA-256 of the answer, samples read."""
    lines = models.JSONField()
    """One object per record: its columns, its delta, and the sum it was made against (`basis`)."""
    record_count = models.PositiveIntegerField()
    unit_seconds = models.BigIntegerField()
    """Sum of the deltas."""
    digest = models.CharField(max_length=64)
    """SHA-256 over the lines."""
    state = models.CharField(max_length=16, choices=STATE_CHOICES)
    requested_by = models.CharField(max_length=200)
    requested_by_id = models.CharField(max_length=64)
    requested_at = models.DateTimeField()
    decided_by = models.CharField(max_length=200, blank=True, default="")
    decided_by_id = models.CharField(max_length=64, blank=True, default="")
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-requested_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(record_count__gte=1), name="usage_correction_has_records"
            ),
            models.CheckConstraint(
                condition=(Q(state=CorrectionState.PROPOSED.value) & Q(decided_at__isnull=True))
                | (~Q(state=CorrectionState.PROPOSED.value) & Q(decided_at__isnull=False)),
                name="usage_correction_decided_once",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "-window_start"], name="usage_correction_by_state"),
            models.Index(fields=["project", "-window_start"], name="usage_correction_by_project"),
            models.Index(Greatest("requested_at", "decided_at"), name="usage_correction_updated"),
        ]

    def __str__(self) -> str:
        """Return the hour and the delta."""
        return f"{self.window_start:%Y-%m-%dT%H}Z {self.unit_seconds:+d} unit-seconds"
