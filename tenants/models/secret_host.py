"""Which host a cluster's secret was first named for, where no operator pinned it."""

from django.db import models


class SecretHost(models.Model):
    """A secret and the host that it is for, as long as the service knows the secret.

    It outlasts the cluster's reference, so that clearing that and naming it anew changes nothing.
    """

    secret = models.CharField(max_length=200, primary_key=True)
    """`secret_key` of the reference; never the secret."""
    host = models.CharField(max_length=253)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["secret"]

    def __str__(self) -> str:
        """Return the secret's name and its host."""
        return f"{self.secret}: {self.host}"
