"""Live use: reservations of admitted pods, the counters they move, and what was refused."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from quotas.models.limit import SIZE_CHOICES, QuotaLimit
from tenants.models import Cluster, Organization, Project


class ReservationState(models.TextChoices):
    """State of an admitted pod's units."""

    RESERVED = "reserved"
    """Admitted, and not bound to a node yet. It expires unless the watch has seen the pod."""
    HELD = "held"
    """Bound: there is an open allocation of it."""
    RELEASED = "released"


class ReservationOrigin(models.TextChoices):
    """How it came to be counted."""

    ADMISSION = "admission"
    FOUND = "found"
    """An open allocation without admission: a bypass, or older than admission."""


class ReleaseReason(models.TextChoices):
    """Why units are free again."""

    ENDED = "ended"
    EXPIRED = "expired"
    REPLACED = "replaced"
    """A newer attempt at the same pod, or at a pod of the same controller, counts instead."""
    ABSENT = "absent"
    """The API server proved that the pod was not created; see docs/adr/0043."""
    GONE = "gone"
    """The watch saw the pod go without it ever being bound."""
    HANDED_OVER = "handed_over"
    """Its device claim is bound and counts by itself, once for all pods that share it."""
    UNBOUND = "unbound"
    """Its namespace belongs to no project any more; it counts again once it does."""
    UNSIZED = "unsized"
    """Found with unknown size: it counts nowhere until a rule matches."""


class Reservation(models.Model):
    """What one pod takes of one resource, from its admission until it is gone.

    Unique by cluster, pod uid and resource, so that asking twice counts once. Rows that are not
    released add up to the counters, at every level; that is checked, and repaired, all the time.
    """

    cluster = models.ForeignKey(
        Cluster,
        on_delete=models.PROTECT,
        related_name="reservations",
        db_index=False,
        db_constraint=False,
    )
    """No constraint here and below: checking one locks rows that every pod of a tenant shares."""
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=260)
    """Wide enough for "claim/" and any name a device class can have."""
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    controller = models.CharField(max_length=320, blank=True, default="", db_default="")
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="reservations",
        db_index=False,
        db_constraint=False,
    )
    project = models.ForeignKey(
        Project,
        on_delete=models.PROTECT,
        related_name="reservations",
        db_index=False,
        db_constraint=False,
    )
    owner = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Owner that the pod named at admission; "" for none."""
    username = models.CharField(max_length=150, blank=True, default="", db_default="")
    """User it counts for: its owner, else its namespace's current default owner."""
    size = models.CharField(max_length=16, choices=SIZE_CHOICES, blank=True)
    """"" only for an unknown size, which never counts."""
    units = models.PositiveIntegerField()
    model_groups = ArrayField(models.CharField(max_length=32), default=list)
    """Every model group it may land on; its own once it is bound; empty counts for all."""
    is_burst = models.BooleanField(default=False, db_default=False)
    state = models.CharField(max_length=16, choices=ReservationState.choices)
    origin = models.CharField(max_length=16, choices=ReservationOrigin.choices)
    admitted_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    """When it is released unless the pod was seen by then; None once it was."""
    held_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)
    release_reason = models.CharField(
        max_length=16, choices=ReleaseReason.choices, blank=True, default="", db_default=""
    )

    class Meta:
        ordering = ["-admitted_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "pod_uid", "resource"], name="reservation_unique"
            ),
            models.CheckConstraint(condition=Q(units__gte=1), name="reservation_units_positive"),
            models.CheckConstraint(
                condition=Q(state=ReservationState.RELEASED, released_at__isnull=False)
                | (~Q(state=ReservationState.RELEASED) & Q(released_at__isnull=True)),
                name="reservation_release_has_its_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["organization", "project"],
                condition=~Q(state=ReservationState.RELEASED),
                name="reservation_live",
            ),
            models.Index(
                fields=["organization", "expires_at"],
                condition=Q(state=ReservationState.RESERVED),
                name="reservation_expiring",
            ),
            models.Index(
                fields=["cluster", "namespace", "controller", "pod_name"],
                condition=Q(state=ReservationState.RESERVED, expires_at__isnull=False),
                name="reservation_unseen",
            ),
            models.Index(
                fields=["cluster", "namespace", "pod_name"],
                condition=Q(resource__startswith="claim/"),
                name="reservation_claims",
            ),
            models.Index(
                fields=["released_at"],
                condition=Q(state=ReservationState.RELEASED),
                name="reservation_released",
            ),
        ]

    def __str__(self) -> str:
        """Return the pod and what it takes."""
        return f"{self.namespace}/{self.pod_name}: {self.units} {self.size} ({self.state})"


class AdmittedPod(models.Model):
    """A pod with ResourceClaims that was admitted, and to whom it belongs.

    It has no reservation: they count by themselves, for its owner.
    """

    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    pod_uid = models.CharField(max_length=64)
    owner = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Owner at admission; "" for the namespace's default owner."""
    admitted_at = models.DateTimeField()

    class Meta:
        ordering = ["-admitted_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "pod_uid"], name="admitted_pod_unique"),
        ]
        indexes = [models.Index(fields=["admitted_at"], name="admitted_pod_by_time")]

    def __str__(self) -> str:
        """Return the pod and its owner."""
        return f"{self.pod_uid}: {self.owner}"


class QuotaCounter(models.Model):
    """What counts against one limit now; one row per limit, locked by admission.

    It is the sum of the reservations the limit counts, kept beside them because a pod cannot wait
    for a sum. Nominal and burst units are counted apart: a preemptible pod counts as burst only.
    """

    limit = models.OneToOneField(
        QuotaLimit, on_delete=models.CASCADE, primary_key=True, related_name="counter"
    )
    held_units = models.BigIntegerField(default=0, db_default=0)
    reserved_units = models.BigIntegerField(default=0, db_default=0)
    burst_held_units = models.BigIntegerField(default=0, db_default=0)
    burst_reserved_units = models.BigIntegerField(default=0, db_default=0)
    month = models.DateField(null=True, blank=True)
    """First day of the UTC month `month_unit_seconds` is about."""
    month_unit_seconds = models.BigIntegerField(default=0, db_default=0)
    """Used in that month up to the last look, by ended and open allocations."""
    checked_at = models.DateTimeField(null=True, blank=True)
    """When it was last compared with its reservations."""
    drift_units = models.BigIntegerField(default=0, db_default=0)
    """How far it was off at that time; 0 is how it should be."""

    class Meta:
        ordering = ["limit"]
        constraints = [
            models.CheckConstraint(
                condition=Q(held_units__gte=0)
                & Q(reserved_units__gte=0)
                & Q(burst_held_units__gte=0)
                & Q(burst_reserved_units__gte=0),
                name="quota_counter_never_below_zero",
            ),
        ]

    def __str__(self) -> str:
        """Return what is counted."""
        return f"{self.held_units} held, {self.reserved_units} reserved"


class AdmissionRefusal(models.Model):
    """What was refused to one workload for one reason: a row that counts, not one per try.

    Old ones are added up in a row without a namespace for each cluster, reason and size.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    namespace = models.CharField(max_length=63)
    workload = models.CharField(max_length=320)
    """The controller as "Kind/name", or "Pod/name" of a pod without one."""
    code = models.CharField(max_length=32)
    size = models.CharField(max_length=16, choices=SIZE_CHOICES, blank=True, default="")
    units = models.PositiveIntegerField(default=0)
    """What the last try asked for."""
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    username = models.CharField(max_length=150, blank=True, default="")
    message = models.TextField(blank=True, default="")
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        ordering = ["-last_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "workload", "code", "size"],
                name="admission_refusal_unique",
            ),
            models.CheckConstraint(
                condition=Q(last_at__gte=F("first_at")), name="admission_refusal_forward"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "last_at"], name="admission_refusal_recent"),
            models.Index(fields=["last_at"], name="admission_refusal_last"),
        ]

    def __str__(self) -> str:
        """Return the refused pod and its request."""
        return f"{self.namespace}/{self.workload}: {self.code}"
