"""Quota grants: units added to a limit, or lent away from it, for a range of time."""

from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Q

from quotas.models.limit import QuotaLimit
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project


class GrantReason(models.TextChoices):
    """Where a grant comes from."""

    REQUEST = "request"
    LOAN = "loan"
    MANUAL = "manual"


class QuotaGrant(models.Model):
    """A signed number of units on top of a limit, from the start of `valid` up to its end.

    A loan is two grants over one range: minus at the lender, plus at the borrower. The sum of a
    limit and its grants is never below zero at any time. Ending a grant early moves the end of
    its range, and one that is cancelled before it begins has an empty one; it is never deleted,
    also when its limit is: then `limit` is None, and the holder stands here. The database takes
    the holder from the limit when a grant is made.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    limit = models.ForeignKey(
        QuotaLimit, on_delete=models.SET_NULL, related_name="grants", null=True
    )
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="quota_grants", editable=False
    )
    project = models.ForeignKey(
        Project,
        on_delete=models.PROTECT,
        related_name="quota_grants",
        null=True,
        blank=True,
        editable=False,
    )
    units = models.IntegerField()
    valid = DateTimeRangeField()
    reason = models.CharField(max_length=16, choices=GrantReason.choices)
    reference = models.CharField(max_length=64, blank=True, default="")
    """Id of the request or loan it comes from; "" when somebody made it by hand."""
    note = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["limit", "valid", "id"]
        constraints = [
            models.CheckConstraint(condition=~Q(units=0), name="quota_grant_is_something"),
            models.CheckConstraint(
                condition=Q(valid__isempty=True) | Q(valid__startswith__isnull=False),
                name="quota_grant_has_a_begin",
            ),
        ]

    def __str__(self) -> str:
        """Return what is granted."""
        return f"{self.units:+d} on {self.limit or 'a limit that was removed'}"
