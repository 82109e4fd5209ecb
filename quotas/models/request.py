"""Quota requests, and the policies that name their deciders."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest

from quotas.domain.requests.routing import RequestLevel
from quotas.models.limit import SIZE_CHOICES
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project

LEVEL_CHOICES = [
    (level.value, level.value.replace("_", " ").capitalize()) for level in RequestLevel
]


class RequestState(models.TextChoices):
    """State of a request; the table of moves is in quotas/domain/requests/routing.py."""

    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class QuotaRequest(models.Model):
    """A request that a project, or a user in it, may hold `requested_units` in all.

    Without times the limit itself becomes that number. With a begin or an end what is missing to it
    becomes grants on top of the limit, for as long as it is missing.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="quota_requests"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="quota_requests")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """User it is for; None for the whole project."""
    size = models.CharField(max_length=16, choices=SIZE_CHOICES)
    model_group = models.CharField(max_length=32, blank=True, default="", db_default="")
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    requested_units = models.PositiveIntegerField()
    """The wanted total, never the difference."""
    burst_units = models.PositiveIntegerField(null=True, blank=True)
    """The wanted total of burst units; None leaves them as they are."""
    begin_at = models.DateTimeField(null=True, blank=True)
    """None is from the approval on."""
    end_at = models.DateTimeField(null=True, blank=True)
    """None is without end."""
    units_before = models.PositiveIntegerField(null=True, blank=True)
    """What was in force for the wanted time when it was asked; None when unset or unlimited."""
    burst_before = models.PositiveIntegerField(null=True, blank=True)
    """Burst units of the limit when it was asked; None when unset."""
    is_unlimited_before = models.BooleanField(default=False, db_default=False)
    """Whether `units_before` is None because the limit was unlimited, rather than unset."""
    peak_units = models.PositiveIntegerField(null=True, blank=True)
    """The most it comes to at any instant of its time, other grants included; None if unknown."""
    justification = models.TextField()
    renews = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="renewals", null=True, blank=True
    )
    supersedes = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="successors", null=True, blank=True
    )
    cost = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    """The cost preview at submission; amounts as text."""
    state = models.CharField(
        max_length=16, choices=RequestState.choices, default=RequestState.SUBMITTED
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="quota_requests"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.TextField(blank=True, default="")
    is_automatic = models.BooleanField(default=False, db_default=False)
    """Whether the policy itself approved it."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state__in=[RequestState.APPROVED, RequestState.REJECTED])
                | Q(decided_by__isnull=False, decided_at__isnull=False)
                | Q(state=RequestState.APPROVED, is_automatic=True, decided_at__isnull=False),
                name="quota_request_decision_is_signed",
            ),
            models.CheckConstraint(
                condition=~Q(state=RequestState.APPROVED) | ~Q(decided_by=F("requested_by")),
                name="quota_request_approver_is_not_requester",
            ),
            models.CheckConstraint(
                condition=~Q(state=RequestState.APPROVED)
                | Q(user__isnull=True)
                | Q(decided_by__isnull=True)
                | ~Q(decided_by=F("user")),
                name="quota_request_approver_is_not_user",
            ),
            models.CheckConstraint(
                condition=Q(begin_at__isnull=True)
                | Q(end_at__isnull=True)
                | Q(end_at__gt=F("begin_at")),
                name="quota_request_ends_after_its_begin",
            ),
        ]
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=Q(state="submitted"),
                name="quota_request_open",
            ),
            models.Index(Greatest("created_at", "decided_at"), name="quota_request_by_change"),
        ]

    def __str__(self) -> str:
        """Return what was asked."""
        return f"{self.user or self.project}: {self.requested_units} {self.size} ({self.state})"


class StepOutcome(models.TextChoices):
    """What became of a step."""

    WAITING = "waiting"
    """Those before it have not decided."""
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    ESCALATED = "escalated"
    """Not decided in time, and the next step has a higher level."""
    CLOSED = "closed"
    """The request ended before this step."""


class RequestStep(models.Model):
    """One level that decides a request, in order."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveSmallIntegerField()
    level = models.CharField(max_length=32, choices=LEVEL_CHOICES)
    outcome = models.CharField(
        max_length=16, choices=StepOutcome.choices, default=StepOutcome.WAITING
    )
    escalates_at = models.DateTimeField(null=True, blank=True)
    """While it is open: when the next level takes over; None for never."""
    is_raised = models.BooleanField(default=False)
    """Whether it was escalated from a level that did not answer."""
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["request", "position"]
        constraints = [
            models.UniqueConstraint(fields=["request", "position"], name="request_step_once"),
            models.UniqueConstraint(
                fields=["request"], condition=Q(outcome="open"), name="request_step_one_open"
            ),
            models.UniqueConstraint(
                fields=["request", "decided_by"],
                condition=Q(decided_by__isnull=False),
                name="request_step_one_per_person",
            ),
            models.CheckConstraint(
                condition=~Q(outcome__in=["approved", "rejected"])
                | Q(decided_by__isnull=False, decided_at__isnull=False),
                name="request_step_is_signed",
            ),
        ]

    def __str__(self) -> str:
        """Return the step's level and outcome."""
        return f"{self.level}: {self.outcome}"


class RequestComment(models.Model):
    """A comment on a request, visible to all its readers."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        """Return the author."""
        return f"{self.author}: {self.text}"


class RequestPolicy(models.Model):
    """How the requests of an organization are decided; the one without an organization is for all.

    What the columns mean is written in quotas/domain/requests/routing.py and policy_input.py.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.OneToOneField(
        Organization,
        on_delete=models.PROTECT,
        related_name="request_policy",
        null=True,
        blank=True,
    )
    currency = models.CharField(max_length=3, blank=True, default="")
    """Of every amount of the policy; "" where it has none."""
    steps = models.JSONField(default=list)
    """[{"level": "finance", "units_from": {"large": 16}, "cost_from": "10000"}], in their order."""
    automatic_units = models.JSONField(default=dict, blank=True)
    """{"small": 4}: the largest wanted total that is approved automatically."""
    automatic_cost = models.DecimalField(max_digits=20, decimal_places=4, null=True, blank=True)
    escalate_after_hours = models.PositiveIntegerField(null=True, blank=True)
    expire_after_days = models.PositiveIntegerField(default=30)
    remind_days = models.PositiveIntegerField(default=7)
    """How long before its end a grant's holder is reminded to renew."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "id"]
        verbose_name_plural = "request policies"
        constraints = [
            models.UniqueConstraint(
                fields=["organization"],
                name="request_policy_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        """Return whose it is."""
        return "Every other organization" if self.organization is None else str(self.organization)
