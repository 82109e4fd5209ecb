"""The audit trail: actor, action, time and object. Append-only."""

from django.db import models


class AuditEntry(models.Model):
    """One thing done. `leaf` is set by the database at insert and proves the row's content.

    `occurred_at` is when the service says that it happened; `recorded_at` and `transaction_id` are
    the database's, whatever the statement gave. They are empty in entries from before they were.
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
    recorded_at = models.DateTimeField(null=True, editable=False)
    transaction_id = models.BigIntegerField(null=True, editable=False)
    """The transaction that wrote it: a change of people, roles or tokens has to have one."""

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
            models.Index(fields=["object_kind", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["transaction_id"], name="audit_by_transaction"),
        ]

    def __str__(self) -> str:
        """Return the action and the actor."""
        return f"{self.action} by {self.actor_label}"
