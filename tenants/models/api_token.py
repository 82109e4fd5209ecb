"""Service accounts and API tokens: how programs authenticate."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.models.organization import SLUG, LifecycleState, Organization


class ServiceAccount(models.Model):
    """A program that acts for an organization."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="service_accounts"
    )
    slug = models.CharField(max_length=63, validators=[SLUG])
    name = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["organization__slug", "slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "slug"], name="service_account_slug_unique_in_organization"
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name


class ApiToken(models.Model):
    """A secret shown once: only its keyed digest is kept.

    The text is `gl_<prefix>_<secret>`; the prefix finds the row, the digest proves the secret.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.BinaryField(max_length=32)
    name = models.CharField(max_length=200)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        null=True,
        blank=True,
    )
    service_account = models.ForeignKey(
        ServiceAccount,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        null=True,
        blank=True,
    )
    scopes = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, service_account__isnull=True)
                | Q(user__isnull=True, service_account__isnull=False),
                name="api_token_has_one_holder",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=models.F("created_at")),
                name="api_token_expires_after_creation",
            ),
        ]

    def __str__(self) -> str:
        """Return what may be shown: never the secret."""
        return f"{self.name} (gl_{self.prefix}_…)"
