"""Quota limits, the grants that change them, and suspensions."""

from django.conf import settings
from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Q

from metering.domain.catalogue.units import GPUSize
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project

SIZE_CHOICES = [(size.value, size.value.capitalize()) for size in GPUSize]


class LimitScope(models.TextChoices):
    """What a limit binds."""

    ORGANIZATION = "organization"
    PROJECT = "project"
    USER = "user"


class QuotaLimit(models.Model):
    """One limit of one size, for every GPU model and cluster or for one of them.

    No row means unset: the level above decides. `limit_units` of None is unlimited: it was
    decided that this level allows any number. Zero means none may be held. A user's limit holds
    inside one project. What is in force at a time is this plus the grants of that time.
    `generation` rises with every change, so that an older worker can never overwrite a newer
    limit in the cluster.
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
    model_group = models.CharField(max_length=32, blank=True, default="", db_default="")
    """Such as "H100": the part of a price group before its first slash; "" for every model."""
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="quota_limits", null=True, blank=True
    )
    """None for every cluster."""
    limit_units = models.PositiveIntegerField(null=True, blank=True)
    """Nominal units; None is unlimited."""
    burst_units = models.PositiveIntegerField(default=0, db_default=0)
    """Units beyond the nominal ones that preemptible pods may hold, and only they."""
    overcommit_percent = models.PositiveIntegerField(default=100, db_default=100)
    """How much of it may be promised to the level below, together; 100 is all of it once."""
    monthly_unit_hours = models.PositiveIntegerField(null=True, blank=True)
    """Unit-hours that may be used in a UTC calendar month; None for any number."""
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
                fields=["organization", "project", "user", "size", "model_group", "cluster"],
                name="quota_limit_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(overcommit_percent__gte=100, overcommit_percent__lte=1000),
                name="quota_limit_overcommit_sensible",
                violation_error_message="Overcommit is 100 to 1000 percent.",
            ),
        ]
        indexes = [models.Index(fields=["changed_at"], name="quota_limit_by_change")]

    def __str__(self) -> str:
        """Return the holder and the units."""
        holder = self.user or self.project or self.organization
        units = "unlimited" if self.limit_units is None else self.limit_units
        group = f" {self.model_group}" if self.model_group else ""
        place = f" on {self.cluster.slug}" if self.cluster else ""
        return f"{holder}: {units} {self.size}{group}{place}"


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
    """Id of the request or loan it comes from; "" when a person made it."""
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


class QuotaSuspension(models.Model):
    """From `begin_at` until it is resumed nothing new is admitted; what runs keeps running.

    It is kept for ever: a suspended tenant can see why, by whom and for how long.
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
    """Shown in denials."""
    source = models.CharField(max_length=32, blank=True, default="")
    """Its source, such as "budget" or "arrears"; "" for a person."""
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
        """Return the suspended tenant."""
        return f"{self.project or self.organization}: {self.reason}"
