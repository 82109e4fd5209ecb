"""Admission beside reservations: secrets in webhook addresses, and the process that releases."""

from django.db import models
from django.db.models import F, Q

from tenants.models import Cluster


class WebhookSecret(models.Model):
    """A secret by which a managed API server proves which cluster it is; only its hash is kept.

    Two of a cluster are in force at most: the one its configuration holds, and its successor.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="webhook_secrets")
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256 of the secret, in hexadecimal digits: 256 random bits need no slower one."""
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """A hash, and an end that is not before its begin."""

        constraints = [
            models.CheckConstraint(
                condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="webhook_secret_digest"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("created_at")),
                name="webhook_secret_ends_after_begin",
            ),
        ]

    def __str__(self) -> str:
        """Return the cluster and the beginning of the hash."""
        return f"{self.cluster_id} {self.digest[:8]}"


class ReleaseLease(models.Model):
    """Which process releases a cluster's unseen reservations, by the database's clock."""

    cluster = models.OneToOneField(
        Cluster, on_delete=models.CASCADE, primary_key=True, related_name="release_lease"
    )
    holder = models.CharField(max_length=64)
    lease_until = models.DateTimeField()

    def __str__(self) -> str:
        """Return the cluster and the holder."""
        return f"{self.cluster_id} {self.holder}"
