"""Quota requests: a tenant lead asks, somebody else decides."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from quotas.models.limit import SIZE_CHOICES
from tenants.domain.identifiers import new_id
from tenants.models import Organization, Project


class RequestState(models.TextChoices):
    """Where a request stands; the table of moves is in quotas/domain/request_state.py."""

    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class QuotaRequest(models.Model):
    """A wish for a project's limit of one size to become `requested_units`."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="quota_requests"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="quota_requests")
    size = models.CharField(max_length=16, choices=SIZE_CHOICES)
    requested_units = models.PositiveIntegerField()
    units_before = models.PositiveIntegerField(null=True, blank=True)
    """The project's limit when the request was made; None when unset."""
    justification = models.TextField()
    state = models.CharField(
        max_length=16, choices=RequestState.choices, default=RequestState.SUBMITTED
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="quota_requests"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state__in=[RequestState.APPROVED, RequestState.REJECTED])
                | (Q(decided_by__isnull=False, decided_at__isnull=False)),
                name="quota_request_decision_is_signed",
            ),
            models.CheckConstraint(
                condition=~Q(state=RequestState.APPROVED) | ~Q(decided_by=F("requested_by")),
                name="quota_request_nobody_approves_their_own",
            ),
        ]

    def __str__(self) -> str:
        """Return what was asked."""
        return f"{self.project}: {self.requested_units} {self.size} ({self.state})"
