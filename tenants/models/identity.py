"""Who may do what: service accounts, tokens, roles, invitations, and changes of accounts."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from tenants.domain.identifiers import new_id
from tenants.domain.identity.account_changes import ChangeKind, ChangeState
from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.models.organization import SLUG, LifecycleState, Organization, Project


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


class AccountChange(models.Model):
    """One change to one person's account: asked for by one, decided by another.

    `value` is the role, the address or the user name; empty for the other kinds. `email` and
    `username` are the person's when it was asked for: links go there, and nothing is approved once
    either differs.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(
        max_length=16, choices=[(kind.value, kind.value.replace("_", " ")) for kind in ChangeKind]
    )
    subject = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="account_changes"
    )
    value = models.CharField(max_length=254, blank=True, default="")
    email = models.CharField(max_length=254, blank=True, default="")
    username = models.CharField(max_length=150)
    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in ChangeState],
        default=ChangeState.OPEN.value,
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-requested_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "kind", "value"],
                condition=Q(state=ChangeState.OPEN.value),
                name="account_change_open_once",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=[ChangeState.OPEN.value, ChangeState.EXPIRED.value],
                    decided_by__isnull=True,
                    decided_at__isnull=True,
                )
                | Q(
                    state__in=[ChangeState.APPROVED.value, ChangeState.DECLINED.value],
                    decided_by__isnull=False,
                    decided_at__isnull=False,
                ),
                name="account_change_decided_by_a_person",
            ),
            models.CheckConstraint(
                # The old address' owner approves an address; everything else takes another person.
                condition=~Q(state=ChangeState.APPROVED.value, decided_by=F("requested_by"))
                | Q(kind=ChangeKind.EMAIL.value),
                name="account_change_needs_two_people",
            ),
        ]

    def __str__(self) -> str:
        """Return the change and the account."""
        return f"{self.subject}: {self.kind} {self.value}".strip()
