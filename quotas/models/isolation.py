"""Isolation policies: which ways of sharing a GPU may serve a tenant, by kind of work."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from quotas.domain.isolation.policy import ServingMode, WorkKind
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project

WORK_KIND_CHOICES = [(kind.value, kind.value.capitalize()) for kind in WorkKind]
SERVING_MODE_CHOICES = [
    (ServingMode.DEDICATED.value, "Whole GPU of a dedicated node"),
    (ServingMode.WHOLE.value, "Whole GPU"),
    (ServingMode.MIG.value, "MIG instance"),
    (ServingMode.MPS.value, "MPS"),
    (ServingMode.TIME_SLICING.value, "Time-slicing"),
]


class IsolationPolicy(models.Model):
    """What one organization or project allows for one kind of work, or for any.

    The most specific row binds alone: rows are never mixed. Without a row the default of the kind
    holds. An empty list of modes lets no GPU pod in.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="isolation_policies"
    )
    project = models.ForeignKey(
        Project,
        on_delete=models.PROTECT,
        related_name="isolation_policies",
        null=True,
        blank=True,
    )
    """None for every project of the organization."""
    work_kind = models.CharField(
        max_length=16, choices=WORK_KIND_CHOICES, blank=True, default="", db_default=""
    )
    """"" for any kind of work."""
    modes = ArrayField(
        models.CharField(max_length=16, choices=SERVING_MODE_CHOICES), blank=True, default=list
    )
    allow_shared_with_other_tenants = models.BooleanField(default=False, db_default=False)
    """Whether its pods may be on one device with those of other organizations."""
    default_kind = models.CharField(
        max_length=16, choices=WORK_KIND_CHOICES, blank=True, default="", db_default=""
    )
    """What pods without the label are for; only where the policy is for any kind of work."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "project__slug", "work_kind"]
        verbose_name_plural = "isolation policies"
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "project", "work_kind"],
                name="isolation_policy_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(modes__contained_by=[mode.value for mode in ServingMode]),
                name="isolation_policy_modes_known",
            ),
            models.CheckConstraint(
                condition=Q(work_kind="") | Q(default_kind=""),
                name="isolation_policy_kind_of_any",
                violation_error_message="Only a policy for any kind of work has a default kind.",
            ),
        ]

    def __str__(self) -> str:
        """Return whose it is, for what."""
        return f"{self.project or self.organization}: {self.work_kind or 'any work'}"
