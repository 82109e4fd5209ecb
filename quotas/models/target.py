"""Enforcement: each namespace's ResourceQuota, and where admission counts every pod exactly."""

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
    notice = models.TextField(blank=True, default="", db_default="")
    """What the cluster's own configuration says about these quotas, as Kueue's does."""
    refused_pods = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    """Workloads that lack pods because of this quota, as `RefusedWorkload` describes them."""
    refused_read_at = models.DateTimeField(null=True, blank=True)
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
    repaired_at = models.JSONField(
        default=list, blank=True, db_default=models.Value([], models.JSONField())
    )
    """When it was repaired within the last minutes, as ISO 8601 text, oldest first."""
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


class AdmissionCoverage(models.Model):
    """Where the API server of one cluster asks this service about every GPU, as it was read there.

    Only where that is so, and long enough, is a limit not divided over namespaces.
    """

    cluster = models.OneToOneField(
        Cluster, on_delete=models.PROTECT, primary_key=True, related_name="admission_coverage"
    )
    covered_at = models.DateTimeField(null=True, blank=True)
    """Since when all of it is covered without a break; None while nothing is."""
    excluded = models.JSONField(default=list, blank=True)
    """Namespaces that are not asked about."""
    included = models.JSONField(null=True, blank=True)
    """The only namespaces that are asked about, each with the time since when, as ISO 8601 text;
    None for all but those excluded."""
    checked_at = models.DateTimeField(null=True, blank=True)
    """When the cluster was last read; a try that failed is no reading."""
    problem = models.TextField(blank=True, default="")
    """Why nothing is covered, or why the cluster could not be read."""

    class Meta:
        ordering = ["cluster__slug"]

    def __str__(self) -> str:
        """Return whose admission it is."""
        return f"admission of {self.cluster_id}"
