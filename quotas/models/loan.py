"""Quota loans: units one project lends another until a date, and what was agreed about them."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from quotas.models.limit import SIZE_CHOICES
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project


class LoanState(models.TextChoices):
    """State of a loan; the table of moves is in quotas/domain/lending.py."""

    PROPOSED = "proposed"
    ACTIVE = "active"
    DECLINED = "declined"
    LAPSED = "lapsed"
    """Not decided while it would have helped."""
    ENDED = "ended"
    RECALLED = "recalled"


class QuotaLoan(models.Model):
    """Units that leave one project's limit and join another's, within one organization.

    While it is active it is two grants over one range of time, minus at the lender and plus at
    the borrower, with its id as their reference; so the organization's sum is the same at every
    instant. A proposal changes no limit.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="quota_loans"
    )
    lender = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="loans_given")
    borrower = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="loans_taken")
    size = models.CharField(max_length=16, choices=SIZE_CHOICES)
    model_group = models.CharField(max_length=32, blank=True, default="", db_default="")
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    units = models.PositiveIntegerField()
    begin_at = models.DateTimeField(null=True, blank=True)
    """When it came into force; None while it never did."""
    end_at = models.DateTimeField()
    """When it ends; of one that was recalled, when that was."""
    state = models.CharField(max_length=16, choices=LoanState.choices, default=LoanState.PROPOSED)
    lender_idle_units = models.PositiveIntegerField()
    """What the lender could spare when it was proposed."""
    borrower_missing_units = models.PositiveIntegerField()
    """What the borrower was short of when it was proposed."""
    is_automatic = models.BooleanField(default=False, db_default=False)
    """Approved by the organization's policy instead of by a person."""
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(lender=F("borrower")), name="quota_loan_is_between_two"
            ),
            models.CheckConstraint(condition=Q(units__gte=1), name="quota_loan_is_something"),
            models.CheckConstraint(
                condition=Q(begin_at__isnull=True) | Q(end_at__gte=F("begin_at")),
                name="quota_loan_forward",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=[LoanState.PROPOSED, LoanState.DECLINED, LoanState.LAPSED],
                    begin_at__isnull=True,
                )
                | Q(
                    state__in=[LoanState.ACTIVE, LoanState.ENDED, LoanState.RECALLED],
                    begin_at__isnull=False,
                ),
                name="quota_loan_in_force_has_a_begin",
            ),
            models.UniqueConstraint(
                fields=["lender", "borrower", "size", "model_group", "cluster"],
                condition=Q(state=LoanState.PROPOSED),
                name="quota_loan_proposed_once",
                nulls_distinct=False,
            ),
        ]
        indexes = [
            models.Index(
                fields=["end_at"], condition=Q(state=LoanState.ACTIVE), name="quota_loan_ending"
            )
        ]

    def __str__(self) -> str:
        """Return lender, borrower and units."""
        return f"{self.lender} to {self.borrower}: {self.units} {self.size} ({self.state})"


class LoanMode(models.TextChoices):
    """What happens when one project waits for what another holds idle."""

    OFF = "off"
    PROPOSE = "propose"
    AUTOMATIC = "automatic"


class LoanPolicy(models.Model):
    """What an organization has agreed about loans between its projects.

    Without a row loans are proposed within the defaults here, and a person decides each.
    """

    organization = models.OneToOneField(
        Organization, on_delete=models.PROTECT, related_name="loan_policy", primary_key=True
    )
    mode = models.CharField(max_length=16, choices=LoanMode.choices, default=LoanMode.PROPOSE)
    max_units = models.PositiveIntegerField(default=8)
    """The most one project borrows of one size in one place, by all its loans together."""
    max_days = models.PositiveIntegerField(default=7)
    """How long a loan lasts."""
    keep_free_percent = models.PositiveIntegerField(default=20)
    """Of the lender's limit, what stays free beside its use."""
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug"]
        verbose_name_plural = "loan policies"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    max_units__gte=1,
                    max_days__gte=1,
                    max_days__lte=92,
                    keep_free_percent__lte=100,
                ),
                name="loan_policy_sensible",
            ),
        ]

    def __str__(self) -> str:
        """Return whose it is."""
        return f"{self.organization}: {self.mode}"
