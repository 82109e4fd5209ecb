"""Projects: they divide an organization's usage and cost."""

from django.db import models

from tenants.domain.identifiers import new_id
from tenants.models.organization import SLUG, LifecycleState, Organization


class Project(models.Model):
    """A body of work inside one organization; it never moves to another."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="projects"
    )
    slug = models.CharField(max_length=63, validators=[SLUG])
    name = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    cost_center = models.CharField(max_length=64, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"],
                name="project_slug_unique_in_organization",
                violation_error_message="The organization has a project with this slug.",
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name
