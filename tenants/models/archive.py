"""Archived months: which partitions were detached, and the digest of the manifest of each."""

from django.db import models
from django.db.models import Q

from tenants.domain.archives import ArchivedTable


class ArchivedMonth(models.Model):
    """A month of a table that is in an archive, or was, until it was restored.

    Only the owner of the tables writes a row; triggers refuse any change but that it was restored.
    """

    id = models.BigAutoField(primary_key=True)
    table_name = models.CharField(
        max_length=16, choices=[(one.value, one.value.capitalize()) for one in ArchivedTable]
    )
    label = models.CharField(max_length=7)
    """Year and month in UTC, such as "2025-09"."""
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    row_count = models.BigIntegerField()
    sums = models.JSONField()
    manifest_sha256 = models.CharField(max_length=64)
    windows_sha256 = models.CharField(max_length=64)
    """Over the sealed windows of the month with their digests, as the archive lists them."""
    location = models.TextField()
    """Where the archive was when the month was detached."""
    detached_at = models.DateTimeField()
    detached_by = models.CharField(max_length=200)
    reason = models.TextField()
    restored_at = models.DateTimeField(null=True, blank=True)
    restored_by = models.CharField(max_length=200, blank=True, default="")
    restore_reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-begin_at", "table_name", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["table_name", "begin_at"],
                condition=Q(restored_at__isnull=True),
                name="archived_month_unique",
            ),
            models.CheckConstraint(
                condition=Q(begin_at__lt=models.F("end_at")), name="archived_month_has_hours"
            ),
        ]

    def __str__(self) -> str:
        """Return table and month."""
        return f"{self.table_name} {self.label}"
