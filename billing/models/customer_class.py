"""Customer classes, such as academic: their organizations are billed by the book of the class."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.models import Organization
from tenants.models.organization import SLUG


class CustomerClass(models.Model):
    """A kind of customers; internal, academic and external are there from the beginning."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        verbose_name_plural = "customer classes"

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name


class CustomerClassMembership(models.Model):
    """Which class an organization is in, for a range of whole UTC hours.

    It has the two time axes of prices.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="class_memberships"
    )
    customer_class = models.ForeignKey(
        CustomerClass, on_delete=models.PROTECT, related_name="memberships", null=True, blank=True
    )
    """None for no class."""
    valid = DateTimeRangeField()
    generation = models.BigIntegerField(default=0, db_default=0, editable=False)
    """Counts changes of this row; the database adds one for each."""
    published_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)
    replaces = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )

    class Meta:
        ordering = ["organization__slug", "valid"]
        constraints = [
            ExclusionConstraint(
                name="class_memberships_do_not_overlap",
                expressions=[
                    ("organization", RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                ],
                condition=Q(superseded_at__isnull=True),
                violation_error_message="The organization has a customer class at that time.",
            ),
        ]

    def __str__(self) -> str:
        """Return the organization, its class and from when."""
        name = self.customer_class or "no class"
        return f"{self.organization}: {name} from {self.valid.lower:%Y-%m-%dT%H}Z"
