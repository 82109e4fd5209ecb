"""Catalogue versions: the rules that say which size a GPU resource is."""

from django.db import models


class CatalogueVersion(models.Model):
    """One version of the size rules. Rows are never changed; the newest one is in force."""

    version = models.PositiveIntegerField(primary_key=True)
    rules = models.JSONField()
    digest = models.CharField(max_length=64)
    """SHA-256 of the canonical rules."""
    note = models.TextField(blank=True, default="", db_default="")
    """Why it was made; "" for the rules that the product brings."""
    created_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Name of its author, as in the audit trail."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        """Return the version as people say it."""
        return f"catalogue v{self.version}"
