"""Which origin a cluster's secret was first named for, where no operator pinned it."""

from django.db import models

ORIGIN_LENGTH_MAX = 267
"""A scheme, a host of 253 characters and a port."""


class SecretHost(models.Model):
    """A secret and where it is sent, as long as the service knows the secret.

    It outlasts the cluster's reference, so that clearing that and naming it anew changes nothing.
    """

    secret = models.TextField(primary_key=True)
    """A key of `NamedSecret`; never the secret."""
    origin = models.CharField(max_length=ORIGIN_LENGTH_MAX)
    """As of `origin_of`; "" where it is not known, and no URL has that."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["secret"]

    def __str__(self) -> str:
        """Return the secret's name and its origin."""
        return f"{self.secret}: {self.origin}"
