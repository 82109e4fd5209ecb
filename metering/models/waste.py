"""Waste findings: allocations that were held and not used, and what would have served."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from metering.domain.efficiency.rules import WasteRule
from tenants.models import Cluster, Organization, Project

RULE_CHOICES = [(rule.value, rule.value.replace("_", " ").capitalize()) for rule in WasteRule]


class WasteState(models.TextChoices):
    """Whether it continues; a person dismisses intended use."""

    OPEN = "open"
    CLOSED = "closed"
    DISMISSED = "dismissed"


class WasteFinding(models.Model):
    """One rule that one allocation breaks, over as many hours as it goes on; no money stands here.

    `wasted = held - needed`: unit-seconds held at the present size, and what the suggestion would
    have taken of its own size and price group. No suggested size means: give it back.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    owner = models.CharField(max_length=150, blank=True, default="")
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    rule = models.CharField(max_length=24, choices=RULE_CHOICES)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    units = models.PositiveIntegerField()
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    suggested_units = models.PositiveIntegerField(default=0)
    suggested_size = models.CharField(max_length=16, blank=True, default="")
    suggested_price_group = models.CharField(max_length=96, blank=True, default="")
    held_unit_seconds = models.BigIntegerField()
    suggested_unit_seconds = models.BigIntegerField(default=0)
    wasted_unit_seconds = models.BigIntegerField()
    """Of the present size: held, less the part of a device that the suggestion takes."""
    activity_ratio = models.DecimalField(max_digits=7, decimal_places=6, null=True, blank=True)
    """Mean activity of its devices over the rule's time; None where none was needed to judge."""
    memory_peak_mebibytes = models.BigIntegerField(null=True, blank=True)
    state = models.CharField(max_length=16, choices=WasteState.choices, default=WasteState.OPEN)
    reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    dismissed_at = models.DateTimeField(null=True, blank=True)
    dismissed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )

    class Meta:
        ordering = ["-until_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "pod_uid", "resource", "rule", "from_at"],
                name="waste_finding_unique",
            ),
            models.UniqueConstraint(
                fields=["cluster", "pod_uid", "resource"],
                condition=Q(state="open"),
                name="waste_finding_one_open",
            ),
            models.CheckConstraint(
                condition=Q(until_at__gt=F("from_at")), name="waste_finding_forward"
            ),
            models.CheckConstraint(
                condition=Q(wasted_unit_seconds__gte=0)
                & Q(wasted_unit_seconds__lte=F("held_unit_seconds")),
                name="waste_finding_within_held",
            ),
        ]
        indexes = [models.Index(fields=["state", "-until_at"], name="waste_finding_open")]

    def __str__(self) -> str:
        """Return the rule and the pod."""
        return f"{self.rule}: {self.namespace}/{self.pod_name}"

    @property
    def is_saving_known(self) -> bool:
        """Whether what is wasted can be said: a smaller unit is only named by a memory figure."""
        is_kept = bool(self.suggested_units) and not self.wasted_unit_seconds
        return not (is_kept and self.memory_peak_mebibytes is None)

    @property
    def known_wasted_unit_seconds(self) -> int | None:
        """What is wasted so far; None where it is unknown."""
        return self.wasted_unit_seconds if self.is_saving_known else None
