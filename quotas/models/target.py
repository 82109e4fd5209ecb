"""Enforcement targets: desired and observed ResourceQuota of each namespace."""

from django.db import models

from tenants.models import Cluster, Project


class EnforcementState(models.TextChoices):
    """How far a wanted quota has come in the cluster."""

    PENDING = "pending"
    APPLIED = "applied"
    CONFLICT = "conflict"
    FAILED = "failed"


class EnforcementTarget(models.Model):
    """One namespace of one cluster. `applied` only when `status.hard` was read back equal.

    `desired_generation` rises with every change of `desired_hard` and is stamped on the object, so
    that a worker which is late can never overwrite a newer quota.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="targets")
    namespace = models.CharField(max_length=63)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="targets")
    desired_hard = models.JSONField(default=dict)
    desired_burst = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    """Units of preemptible pods beyond `desired_hard`; empty when burst is not allowed here."""
    desired_generation = models.PositiveBigIntegerField(default=0)
    applied_generation = models.PositiveBigIntegerField(default=0)
    ceiling_hard = models.JSONField(default=dict)
    """The most each key may be saying in the cluster: all that was sent since the last reading."""
    ceiling_burst = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    is_held = models.BooleanField(default=False, db_default=False)
    """Whether its tenant is suspended: nothing new may start."""
    applied_hard = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    """What was last read back equal."""
    applied_burst = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    live_hard = models.JSONField(default=dict)
    live_used = models.JSONField(default=dict)
    live_burst = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    live_burst_used = models.JSONField(
        default=dict, db_default=models.Value({}, models.JSONField())
    )
    foreign_quotas = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    """Other quotas of GPU resources in the namespace, by name: shown, for they may be stricter."""
    state = models.CharField(
        max_length=16, choices=EnforcementState.choices, default=EnforcementState.PENDING
    )
    attempt = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField()
    last_error = models.TextField(blank=True, default="")
    drifted_at = models.DateTimeField(null=True, blank=True)
    """When the cluster was found to say something else; None once that is repaired."""
    drift_managers = models.JSONField(
        default=list, blank=True, db_default=models.Value([], models.JSONField())
    )
    """Field managers of the objects when drift was found; empty when one was deleted."""
    drifts_repaired = models.PositiveIntegerField(default=0, db_default=0)
    applied_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    """When it was last read; a try that failed is no reading."""

    class Meta:
        ordering = ["cluster__slug", "namespace"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "namespace"], name="enforcement_target_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["not_before"], name="enforcement_target_due"),
        ]

    def __str__(self) -> str:
        """Return the namespace."""
        return f"{self.cluster.slug}/{self.namespace}"
