"""Verifications: what a run over the whole database found. A run that has ended never changes."""

from django.db import models


class Verification(models.Model):
    """One run of `manage.py verify`, or of a night.

    `audit_count` and `audit_digest` are of the audit entries that were settled when it began, in
    order of their ids; the next run must come to the same digest after as many. The database
    writes when a run began and ended, and refuses one that leaves out a check.
    """

    id = models.BigAutoField(primary_key=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    checks = models.JSONField(default=list)
    """The names of its checks, in their order."""
    is_nightly = models.BooleanField(default=False)
    """Whether any worker may go on with it; one of `manage.py verify` belongs to that process."""
    begun_by = models.CharField(max_length=63, blank=True, default="")
    """The database role; a run that is not nightly is continued by this role only."""
    accepted_entry_id = models.PositiveBigIntegerField(default=0)
    """Ends of runs in the audit trail up to this entry are not compared; set by the owner only."""
    check_name = models.CharField(max_length=64, blank=True, default="")
    """The check it is at."""
    cursor = models.JSONField(default=dict)
    """How far that check has come."""
    counts = models.JSONField(default=dict)
    """By check, how many rows it has read."""
    differences = models.JSONField(default=list)
    difference_count = models.PositiveIntegerField(default=0)
    audit_count = models.BigIntegerField(default=0)
    audit_digest = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        """Return when it began."""
        return f"verification of {self.started_at:%Y-%m-%d %H:%M} UTC"
