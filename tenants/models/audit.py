"""The audit trail: who did what, when, to what. Rows are only ever added."""

from django.db import models


class AuditEntry(models.Model):
    """One thing done. `leaf` is set by the database at insert and proves the row's content.

    `organization_id` is kept as a plain value so that an entry outlives what it speaks of.
    """

    id = models.BigAutoField(primary_key=True)
    occurred_at = models.DateTimeField()
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    actor_label = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    """`<app>:<resource>:<verb>`, such as "billing:invoice:finalize"."""
    object_kind = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    organization_id = models.UUIDField(null=True, blank=True)
    facts = models.JSONField(default=dict)
    leaf = models.BinaryField(editable=False, default=b"")

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
            models.Index(fields=["object_kind", "object_id", "-id"], name="audit_by_object"),
        ]

    def __str__(self) -> str:
        """Return the action and who did it."""
        return f"{self.action} by {self.actor_label}"
