"""Metering windows: one UTC hour of one cluster, from open to sealed."""

from django.db import models
from django.db.models import F, Q, Value

from metering.domain.collection.windows import GapPolicy, WindowState
from tenants.models import Cluster

GAP_POLICY_CHOICES = [(policy.value, policy.value.replace("_", " ")) for policy in GapPolicy]
STATE_CHOICES = [(state.value, state.value.capitalize()) for state in WindowState]


class MeteringWindow(models.Model):
    """The ledger of what has been metered: exactly one row per cluster and hour.

    A worker claims a window by a conditional update that takes a lease by the database's clock and
    raises `fence`; it may post its result only while both still hold.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="windows")
    start_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=STATE_CHOICES, default=WindowState.OPEN.value)
    fence = models.BigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    """Claims that have not reported back; a report sets it to 0."""
    failures = models.PositiveIntegerField(default=0)
    """Answers in a row that could not be used."""
    accepts_low_coverage = models.BooleanField(default=False)
    """A person accepted what was seen, although it is less than should have been."""
    gap_policy = models.CharField(
        max_length=16, choices=GAP_POLICY_CHOICES, blank=True, default="", db_default=""
    )
    """What a person, or the settings, decided about unobserved time; "" while undecided."""
    shown = models.JSONField(default=dict, db_default=Value({}, models.JSONField()), blank=True)
    """What the last incomplete observation had, and its digest; {} while there was none."""
    decided_on = models.JSONField(
        default=dict, db_default=Value({}, models.JSONField()), blank=True
    )
    """What was shown when the decision in force was made: it holds for that, or more."""
    is_watched = models.BooleanField(default=False, db_default=False)
    """Whether the cluster had a watch when it was collected; looks after the seal go by that."""
    lease_owner = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField()
    as_of = models.DateTimeField(null=True, blank=True)
    """The time of the source query, never of the commit."""
    sources = models.JSONField(default=list, blank=True)
    expected_ticks = models.PositiveIntegerField(null=True, blank=True)
    observed_ticks = models.PositiveIntegerField(null=True, blank=True)
    coverage = models.DecimalField(max_digits=6, decimal_places=5, null=True, blank=True)
    unobserved_seconds = models.PositiveIntegerField(null=True, blank=True)
    """How long neither source observed some pods and nodes, in the hour."""
    longest_hole_seconds = models.PositiveIntegerField(null=True, blank=True)
    """The longest such time, beyond the hour too."""
    hidden_unit_seconds_max = models.JSONField(null=True, blank=True)
    """By size, what may have been used in those times at most: what was free. None: no bound."""
    scrape_targets = models.JSONField(default=list, blank=True, db_default=[])
    """Scrape targets that failed or carried nothing, with their scrapes and failures."""
    watch_coverage = models.DecimalField(max_digits=6, decimal_places=5, null=True, blank=True)
    """Share of the hour the watch of the cluster's API saw; None without a watch."""
    reconciliation = models.JSONField(default=dict, blank=True, db_default={})
    """How the sources compare: pods by verdict, and unit-seconds by source."""
    evidence = models.JSONField(default=list, blank=True)
    """One object per query: text, time, SHA-256 of the answer, samples read."""
    catalogue_version = models.PositiveIntegerField(null=True, blank=True)
    record_count = models.PositiveIntegerField(default=0)
    record_digest = models.CharField(max_length=64, blank=True, default="")
    """SHA-256 over the window's records in key order, fixed at the seal."""
    last_error = models.TextField(blank=True, default="")
    collected_at = models.DateTimeField(null=True, blank=True)
    sealed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["cluster", "start_at"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "start_at"], name="window_unique"),
            models.CheckConstraint(
                condition=Q(start_at__minute=0, start_at__second=0),
                name="window_starts_on_the_hour",
            ),
            models.CheckConstraint(
                condition=Q(state=WindowState.COLLECTING.value, lease_until__isnull=False)
                | (~Q(state=WindowState.COLLECTING.value) & Q(lease_until__isnull=True)),
                name="window_lease_only_while_collecting",
            ),
            models.CheckConstraint(
                condition=~Q(state=WindowState.SEALED.value)
                | Q(sealed_at__isnull=False, as_of__isnull=False),
                name="window_sealed_has_evidence_time",
            ),
            models.CheckConstraint(
                condition=Q(observed_ticks__isnull=True)
                | Q(observed_ticks__lte=F("expected_ticks")),
                name="window_observed_within_expected",
            ),
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=Q(state__in=["open", "collecting", "collected", "reconciled"]),
                name="window_due",
            ),
            models.Index(
                fields=["start_at"],
                condition=~Q(state=WindowState.SEALED.value),
                name="window_unsealed",
            ),
            models.Index(fields=["sealed_at"], name="window_by_seal"),
        ]

    def __str__(self) -> str:
        """Return the cluster and the hour."""
        return f"{self.cluster.slug} {self.start_at:%Y-%m-%dT%H}Z"
