"""Credit proposals: usage that a hardware failure spoiled, until a person decides about it."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from metering.models.device_event import DeviceEvent
from metering.models.window import MeteringWindow
from tenants.models import Cluster, Organization, Project


class CreditState(models.TextChoices):
    """What became of a proposal. Billing puts an accepted one on the next document.

    Withdrawn is no decision: corrections took the usage back; with the usage the proposal returns.
    """

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn"


class CreditProposal(models.Model):
    """The part of one pod's use of a sealed hour that a failure of its device overlaps.

    One per pod, resource and hour, however many failures overlap it and revisions it has; `event`
    is the first of them.
    """

    event = models.ForeignKey(DeviceEvent, on_delete=models.PROTECT, related_name="proposals")
    window = models.ForeignKey(MeteringWindow, on_delete=models.PROTECT, related_name="+")
    window_start = models.DateTimeField()
    usage_record = models.BigIntegerField()
    """Id of the record's first revision; the table is partitioned, so no foreign key reaches it."""
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    owner = models.CharField(max_length=150, blank=True, default="")
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    unit_seconds = models.BigIntegerField()
    """Units x the seconds from the failure on; at most the sum over the revisions."""
    retracted_unit_seconds = models.BigIntegerField(default=0, db_default=0)
    """What corrections took back of an accepted credit since; it must not be paid."""
    is_certain = models.BooleanField()
    """Whether the exporter named this pod on the device; else only the node is known."""
    is_credited_by_hand = models.BooleanField(default=False, db_default=False)
    """Accepted before billing put credits on documents; finance wrote its credit note."""
    state = models.CharField(
        max_length=16, choices=CreditState.choices, default=CreditState.PROPOSED
    )
    reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )

    class Meta:
        ordering = ["-window_start", "id"]
        constraints = [
            models.UniqueConstraint(fields=["usage_record"], name="credit_proposal_unique"),
            models.CheckConstraint(
                condition=(Q(state=CreditState.WITHDRAWN) & Q(unit_seconds=0))
                | (~Q(state=CreditState.WITHDRAWN) & Q(unit_seconds__gte=1)),
                name="credit_proposal_positive",
            ),
            models.CheckConstraint(
                condition=Q(retracted_unit_seconds__gte=0)
                & Q(retracted_unit_seconds__lte=F("unit_seconds")),
                name="credit_proposal_retracted_within",
            ),
        ]
        indexes = [models.Index(fields=["state", "-window_start"], name="credit_proposal_open")]

    def __str__(self) -> str:
        """Return the pod and how much."""
        return f"{self.namespace}/{self.pod_name}: {self.unit_seconds} unit-seconds"
