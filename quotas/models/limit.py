"""Quota limits: how many units of a size an organization, a project or a user may hold at once."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from metering.domain.gpu_sizes import GPUSize
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project

SIZE_CHOICES = [(size.value, size.value.capitalize()) for size in GPUSize]


class LimitScope(models.TextChoices):
    """What a limit binds."""

    ORGANIZATION = "organization"
    PROJECT = "project"
    USER = "user"


class QuotaLimit(models.Model):
    """One limit. No row means unset: the level above decides; zero means none may be held.

    A user's limit holds inside one project. `generation` rises with every change, so that an older
    worker can never overwrite a newer limit in the cluster.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    scope = models.CharField(max_length=16, choices=LimitScope.choices)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="quota_limits"
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="quota_limits", null=True, blank=True
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="quota_limits",
        null=True,
        blank=True,
    )
    size = models.CharField(max_length=16, choices=SIZE_CHOICES)
    limit_units = models.PositiveIntegerField()
    generation = models.PositiveIntegerField(default=1)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "scope", "project__slug", "size"]
        constraints = [
            models.CheckConstraint(
                condition=Q(scope=LimitScope.ORGANIZATION, project__isnull=True, user__isnull=True)
                | Q(scope=LimitScope.PROJECT, project__isnull=False, user__isnull=True)
                | Q(scope=LimitScope.USER, project__isnull=False, user__isnull=False),
                name="quota_limit_scope_fits",
                violation_error_message="A project limit names a project, a user limit both.",
            ),
            models.UniqueConstraint(
                fields=["organization", "project", "user", "size"],
                name="quota_limit_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        """Return who may hold how many."""
        holder = self.user or self.project or self.organization
        return f"{holder}: {self.limit_units} {self.size}"
