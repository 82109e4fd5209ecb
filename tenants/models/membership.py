"""Memberships: which role a person has, and how far it reaches."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.models.api_token import ServiceAccount
from tenants.models.organization import Organization
from tenants.models.project import Project

ROLE_CHOICES = [(role.value, role.value.replace("_", " ").capitalize()) for role in Role]
ROLES_BY_SCOPE = {
    scope: [role.value for role, reach in ROLE_SCOPES.items() if reach is scope]
    for scope in RoleScope
}


class Membership(models.Model):
    """One role of one person or service account, on the platform, an organization or a project."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="memberships",
        null=True,
        blank=True,
    )
    service_account = models.ForeignKey(
        ServiceAccount,
        on_delete=models.CASCADE,
        related_name="memberships",
        null=True,
        blank=True,
    )
    role = models.CharField(max_length=32, choices=ROLE_CHOICES)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="memberships",
        null=True,
        blank=True,
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="memberships", null=True, blank=True
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, service_account__isnull=True)
                | Q(user__isnull=True, service_account__isnull=False),
                name="membership_has_one_holder",
                violation_error_message="Name either a user or a service account.",
            ),
            models.CheckConstraint(
                condition=Q(
                    role__in=ROLES_BY_SCOPE[RoleScope.PLATFORM],
                    organization__isnull=True,
                    project__isnull=True,
                )
                | Q(
                    role__in=ROLES_BY_SCOPE[RoleScope.ORGANIZATION],
                    organization__isnull=False,
                    project__isnull=True,
                )
                | Q(
                    role__in=ROLES_BY_SCOPE[RoleScope.PROJECT],
                    organization__isnull=True,
                    project__isnull=False,
                ),
                name="membership_role_fits_scope",
                violation_error_message=(
                    "Platform roles take no scope, organization roles an organization, "
                    "project roles a project."
                ),
            ),
            models.UniqueConstraint(
                fields=["user", "service_account", "role", "organization", "project"],
                name="membership_unique",
                nulls_distinct=False,
                violation_error_message="This role is already held.",
            ),
        ]

    def __str__(self) -> str:
        """Return the person and the role."""
        return f"{self.user or self.service_account}: {self.role}"
