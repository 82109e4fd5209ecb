"""Preemption: plans that are shown before they run, their steps, and what may not be touched."""

from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import F, Q

from quotas.domain.preemption.states import PlanState, StepState
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization, Project

PLAN_STATES = [(state.value, state.value.capitalize()) for state in PlanState]
STEP_STATES = [(state.value, state.value.replace("_", " ").capitalize()) for state in StepState]


class PreemptionReason(models.TextChoices):
    """Why workloads have to go."""

    OVER_LIMIT = "over_limit", "Over a limit"
    BURST_YIELD = "burst_yield", "Burst must yield"


class PreemptionMode(models.TextChoices):
    """What the service does by itself when a tenant stays over its limits."""

    OFF = "off", "Nothing"
    PROPOSE = "propose", "Propose a plan"
    EXECUTE = "execute", "Execute a plan"


class PreemptionStep(models.TextChoices):
    """How a pod is ended."""

    SUSPEND = "suspend", "Suspend its Job"
    EVICT = "evict", "Evict it"


class PreemptionPlan(models.Model):
    """The pods to end so that an organization fits its limits again, and the progress.

    A plan is a dry run until it is executed. `fence` rises whenever a worker takes it up:
    what an overtaken worker has to tell is not written.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="preemption_plans"
    )
    reason = models.CharField(max_length=16, choices=PreemptionReason.choices)
    state = models.CharField(max_length=16, choices=PLAN_STATES, default=PlanState.PLANNED.value)
    is_dry_run = models.BooleanField(default=True, db_default=True)
    """Nothing of it has been done in any cluster, and nothing will be until it is executed."""
    overage = models.JSONField(default=list)
    """Overages: kind, holder, selector and units of each."""
    remainders = models.JSONField(default=list)
    """Overages that remain after the plan, and why."""
    planned_by = models.CharField(max_length=150)
    executed_by = models.CharField(max_length=150, blank=True, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    """Until then it may be executed, and once it runs, until then it may run."""
    notified_at = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    """When its next step is due; None before it is executed, and after its end."""
    end_at = models.DateTimeField(null=True, blank=True)
    message = models.TextField(blank=True, default="")
    """What it waits for, or how it ended."""
    fence = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization"],
                condition=Q(state=PlanState.RUNNING.value),
                name="preemption_plan_one_running",
            ),
            models.CheckConstraint(
                condition=Q(state=PlanState.RUNNING.value, not_before__isnull=False)
                | ~Q(state=PlanState.RUNNING.value),
                name="preemption_plan_runs_at_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(state=PlanState.RUNNING.value),
                name="preemption_plan_due",
            ),
        ]

    def __str__(self) -> str:
        """Return whose plan it is, and how far it came."""
        return f"plan of {self.created_at:%Y-%m-%d %H:%M} for {self.organization} ({self.state})"


class PreemptionAction(models.Model):
    """What is done about one pod. Its uid is its idempotency key: no step is done twice.

    `victim` counts the gangs of a plan in the order of going; pods of one gang go together.
    """

    plan = models.ForeignKey(PreemptionPlan, on_delete=models.PROTECT, related_name="actions")
    victim = models.PositiveIntegerField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    controller = models.CharField(max_length=320, blank=True, default="")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    username = models.CharField(max_length=150, blank=True, default="")
    priority = models.IntegerField(default=0)
    is_burst = models.BooleanField(default=False)
    units = models.JSONField(default=dict)
    """Size to units it held when this was planned; empty for a pod that waits beside its gang."""
    started_at = models.DateTimeField()
    reason = models.TextField()
    step = models.CharField(max_length=16, choices=PreemptionStep.choices)
    state = models.CharField(max_length=16, choices=STEP_STATES, default=StepState.PLANNED.value)
    attempt = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=16, blank=True, default="")
    """The cluster's last answer; "" while it was not asked."""
    message = models.TextField(blank=True, default="")
    acted_at = models.DateTimeField(null=True, blank=True)
    job_uid = models.CharField(max_length=64, blank=True, default="")
    """Of the Job that was suspended, or that a claimed step is about to suspend; "" for none."""
    resumed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["plan", "victim", "pod_name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["plan", "cluster", "pod_uid"], name="preemption_action_once"
            ),
        ]

    def __str__(self) -> str:
        """Return what is done about which pod."""
        return f"{self.step} {self.namespace}/{self.pod_name} ({self.state})"


class ProtectedWindow(models.Model):
    """A time in which nothing of an organization, or of one of its projects, is preempted.

    Ending it early moves the end of `valid`; one that is ended before it began is cancelled and
    keeps its times. It is never deleted.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="protected_windows"
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """None protects the whole organization."""
    valid = DateTimeRangeField()
    cancelled_at = models.DateTimeField(null=True, blank=True)
    """When it was cancelled before it began: it protects nothing. None for every other."""
    reason = models.CharField(max_length=200)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(valid__startswith__isnull=False, valid__endswith__isnull=False)
                | Q(valid__isempty=True),
                name="protected_window_is_bounded",
                violation_error_message="A protected window has a begin and an end.",
            ),
            models.CheckConstraint(
                condition=Q(cancelled_at__isnull=True)
                | Q(cancelled_at__lte=F("valid__startswith")),
                name="protected_window_cancelled_before_begin",
            ),
        ]

    def __str__(self) -> str:
        """Return the protected tenant, and why."""
        return f"{self.project or self.organization}: {self.reason}"


class PreemptionPolicy(models.Model):
    """What the service does by itself about one organization; without a row it proposes."""

    organization = models.OneToOneField(
        Organization,
        on_delete=models.PROTECT,
        primary_key=True,
        related_name="preemption_policy",
    )
    mode = models.CharField(
        max_length=16, choices=PreemptionMode.choices, default=PreemptionMode.PROPOSE
    )
    over_since = models.DateTimeField(null=True, blank=True)
    """Since when it holds more than its limits allow, without a break; None when it does not."""
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["organization"]
        verbose_name_plural = "preemption policies"

    def __str__(self) -> str:
        """Return the step and its pod."""
        return f"{self.organization}: {self.mode}"
