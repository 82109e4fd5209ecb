"""Suspensions: a tenant that may start nothing until it is resumed."""

from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project


class QuotaSuspension(models.Model):
    """From `begin_at` until it is resumed nothing new is admitted; what runs keeps running.

    It is kept for ever: whoever was suspended can be told why, by whom and for how long.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="suspensions"
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="suspensions", null=True, blank=True
    )
    """None suspends the whole organization."""
    reason = models.TextField()
    """Told to whoever is refused."""
    source = models.CharField(max_length=32, blank=True, default="")
    """What asked for it, such as "budget" or "arrears"; "" for a person."""
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-begin_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "project", "source"],
                condition=Q(end_at__isnull=True),
                name="quota_suspension_one_open",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        """Return who is suspended."""
        return f"{self.project or self.organization}: {self.reason}"
