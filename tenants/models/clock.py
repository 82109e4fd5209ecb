"""Processes whose clock differs from the database's, where every other process can read it."""

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
