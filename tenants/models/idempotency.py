"""Idempotency records: what a POST answered, so that sending it again changes nothing."""

from django.db import models


class IdempotencyRecord(models.Model):
    """The first answer to one principal's one key; written in the transaction of its effect."""

    id = models.BigAutoField(primary_key=True)
    principal = models.CharField(max_length=96)
    key = models.CharField(max_length=255)
    fingerprint = models.BinaryField(max_length=32)
    """SHA-256 of method, path and canonical body, and of the token's scopes."""
    roles = models.JSONField()
    """What the principal held then, [role, organization, project] each; a replay holds it still."""
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    headers = models.JSONField(default=dict)
    """Those that belong to the answer: ETag and Location."""
    created_at = models.DateTimeField()
    refused_at = models.DateTimeField(null=True)
    """When a replay was refused first; the audit trail has one entry of it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "key"], name="idempotency_key_unique"),
        ]

    def __str__(self) -> str:
        """Return the key as its sender knows it."""
        return self.key
