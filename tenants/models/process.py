"""Processes: clocks that are off, and crashes that repeat, where every process can see them."""

from django.db import models


class ProcessClock(models.Model):
    """The clock of one process that is off; the row goes away once the clock is right again."""

    process = models.CharField(max_length=64, primary_key=True)
    """Host and process id."""
    offset_seconds = models.BigIntegerField()
    """How far it is ahead of the database's clock; negative when it is behind."""
    observed_at = models.DateTimeField()
    """When that was measured, by the database's clock."""

    class Meta:
        ordering = ["process"]

    def __str__(self) -> str:
        """Return the process and how far its clock is off."""
        return f"{self.process}: {self.offset_seconds} s"


class SweepCrash(models.Model):
    """How often items of one sweep ended in an unexpected error: one row for each event.

    The log has key and traceback of each; this has the number that grows while nobody looks.
    """

    event = models.CharField(max_length=100, primary_key=True)
    """The log's name of it, such as "quotas.loans.crashed"."""
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    last_key = models.CharField(max_length=200, blank=True, default="")
    """The item's key: an id, never a name."""
    last_error = models.CharField(max_length=200, blank=True, default="")
    """The class of the last error; its text may name tenants, and is in the log alone."""

    class Meta:
        ordering = ["event"]
        verbose_name_plural = "sweep crashes"

    def __str__(self) -> str:
        """Return what went wrong, and how often."""
        return f"{self.event}: {self.count}"
