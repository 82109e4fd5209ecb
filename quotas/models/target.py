"""Enforcement targets: what each namespace's ResourceQuota should say, and what it says."""

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

    Generations come from the limits: a target whose `applied_generation` is behind its
    `desired_generation` is due.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="targets")
    namespace = models.CharField(max_length=63)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="targets")
    desired_hard = models.JSONField(default=dict)
    desired_generation = models.PositiveBigIntegerField(default=0)
    applied_generation = models.PositiveBigIntegerField(default=0)
    live_hard = models.JSONField(default=dict)
    live_used = models.JSONField(default=dict)
    state = models.CharField(
        max_length=16, choices=EnforcementState.choices, default=EnforcementState.PENDING
    )
    attempt = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField()
    last_error = models.TextField(blank=True, default="")
    applied_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["cluster__slug", "namespace"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "namespace"], name="enforcement_target_unique"
            ),
        ]

    def __str__(self) -> str:
        """Return the namespace."""
        return f"{self.cluster.slug}/{self.namespace}"
