"""Invitations: a role offered to a mail address."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.domain.identity.roles import RoleScope
from tenants.models.membership import ROLE_CHOICES, ROLES_BY_SCOPE
from tenants.models.organization import Organization
from tenants.models.project import Project


class Invitation(models.Model):
    """A role of an organization or project that the owner of an address may accept once.

    The link carries a secret; only its keyed digest is kept.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.CharField(max_length=254)
    role = models.CharField(max_length=32, choices=ROLE_CHOICES)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="invitations", null=True, blank=True
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="invitations", null=True, blank=True
    )
    digest = models.BinaryField(max_length=32, unique=True)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    """How often a user name was tried with the link: each says whether it is taken."""

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    role__in=ROLES_BY_SCOPE[RoleScope.ORGANIZATION],
                    organization__isnull=False,
                    project__isnull=True,
                )
                | Q(
                    role__in=ROLES_BY_SCOPE[RoleScope.PROJECT],
                    organization__isnull=True,
                    project__isnull=False,
                ),
                name="invitation_role_fits_scope",
            ),
            models.UniqueConstraint(
                fields=["email", "role", "organization", "project"],
                condition=Q(accepted_at=None, withdrawn_at=None),
                nulls_distinct=False,
                name="invitation_open_once",
            ),
        ]

    def __str__(self) -> str:
        """Return the invited address and role."""
        return f"{self.email}: {self.role}"
