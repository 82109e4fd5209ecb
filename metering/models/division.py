"""Divided windows: the parts of an hour of many pods while they are metered; gone with the last."""

from django.db import models
from django.db.models import Q

from metering.domain.collection.parts import DivisionPhase, PartState
from metering.models.window import MeteringWindow

PART_STATE_CHOICES = [(state.value, state.value.capitalize()) for state in PartState]


class WindowDivision(models.Model):
    """A window that is metered in parts, and what is common to them.

    First all parts are observed. What only their pods together show is settled then, so that each
    part can be posted as if all pods were known to its worker. The row is deleted with the window's
    last step, by a decision about the window, and when the division is begun anew.
    """

    window = models.OneToOneField(
        MeteringWindow, on_delete=models.CASCADE, primary_key=True, related_name="division"
    )
    as_of = models.DateTimeField()
    """The one time of all questions to the source."""
    not_before = models.DateTimeField()
    """Since when the window is due; it is put off only while all parts are leased."""
    failures = models.PositiveIntegerField(default=0)
    """Those that the window had when it was divided."""
    catalogue_version = models.PositiveIntegerField(null=True, blank=True)
    frame = models.BinaryField(null=True)
    """All of the observation but the pods; NULL without a source to ask."""
    settled = models.BinaryField(null=True)
    """What all parts together show; NULL while they are observed."""
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        """Return the window."""
        return f"division of window {self.window_id}"

    @property
    def is_settled(self) -> bool:
        """Whether all parts were observed, and are posted now."""
        return self.catalogue_version is not None

    @property
    def phase(self) -> DivisionPhase:
        """Return what is done with its parts now."""
        return DivisionPhase.POSTING if self.is_settled else DivisionPhase.OBSERVING


class WindowPart(models.Model):
    """One part of a divided window, leased by itself.

    A worker leases it by the database's clock and posts it only while its fence and lease hold.
    """

    division = models.ForeignKey(WindowDivision, on_delete=models.CASCADE, related_name="parts")
    pods = models.CharField(max_length=64, blank=True)
    """Pattern of the first digits of their uid; "!" before it: those that begin otherwise."""
    state = models.CharField(max_length=16, choices=PART_STATE_CHOICES, default=PartState.DUE.value)
    fence = models.BigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    """Leases that have not reported back; a report sets it to 0."""
    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    observed = models.BinaryField(null=True)
    """Its pods as the source saw them; NULL before, and once they are posted."""
    found = models.BinaryField(null=True)
    """What its pods add up to: while they are observed for the settlement, then for the window."""

    class Meta:
        ordering = ["division", "pods"]
        constraints = [
            models.UniqueConstraint(fields=["division", "pods"], name="window_part_unique"),
            models.CheckConstraint(
                condition=Q(state=PartState.LEASED.value, lease_until__isnull=False)
                | (~Q(state=PartState.LEASED.value) & Q(lease_until__isnull=True)),
                name="window_part_lease_only_while_leased",
            ),
        ]

    def __str__(self) -> str:
        """Return the pods and the state."""
        return f"{self.pods} {self.state}"
