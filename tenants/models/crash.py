"""What goes wrong by itself again and again, counted where every process can see it."""

from django.db import models


class SweepCrash(models.Model):
    """How often turns of one sweep ended in a fault that nobody foresaw: one row for each event.

    The log has key and traceback of each; this has the number that grows while nobody looks.
    """

    event = models.CharField(max_length=100, primary_key=True)
    """The log's name of it, such as "quotas.loans.crashed"."""
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    last_key = models.CharField(max_length=200, blank=True, default="")
    """Whose turn it was, by key: an id, never a name."""
    last_error = models.CharField(max_length=200, blank=True, default="")
    """The class of the last fault; what it says may name tenants, and stands in the log alone."""

    class Meta:
        ordering = ["event"]
        verbose_name_plural = "sweep crashes"

    def __str__(self) -> str:
        """Return what went wrong, and how often."""
        return f"{self.event}: {self.count}"
