"""Billing periods: one month of an organization's time zone, made of whole UTC hours."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models

from tenants.domain.identifiers import new_id
from tenants.models import Organization


class PeriodState(models.TextChoices):
    """How far its closing has come; charges are posted to an open one only."""

    OPEN = "open"
    REVIEW = "review"
    APPROVED = "approved"
    CLOSED = "closed"


class BillingPeriod(models.Model):
    """A stored range, computed once from the zone and then frozen."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="billing_periods"
    )
    label = models.CharField(max_length=7)
    """Year and month, such as "2026-10"."""
    hours = DateTimeRangeField()
    state = models.CharField(max_length=16, choices=PeriodState.choices, default=PeriodState.OPEN)
    created_at = models.DateTimeField()
    reviewed_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    """The account that sent it to review; "" while it is open."""
    reviewed_by_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    reviewed_by_kind = models.CharField(max_length=16, blank=True, default="", db_default="")
    acknowledgement = models.CharField(max_length=500, blank=True, default="", db_default="")
    """Why an unusual cost is right, by the person that sent it to review."""
    reviewed_at = models.DateTimeField(null=True, blank=True)
    approved_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    approved_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    draft_refused_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the sweep last failed to draft it; such a month is tried after all others."""

    class Meta:
        ordering = ["-label", "organization__slug"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "label"], name="billing_period_unique"),
            ExclusionConstraint(
                name="billing_periods_do_not_overlap",
                expressions=[
                    ("organization", RangeOperators.EQUAL),
                    ("hours", RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        """Return the month and whose it is."""
        return f"{self.organization.slug} {self.label}"
