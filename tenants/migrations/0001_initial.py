import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._ledger import RUNTIME_ROLE

# Tables made before this migration and all made after it may be used by the runtime role, which
# owns none of them. deploy/postgres/roles.sql makes the roles.
GRANTS = f"""
GRANT USAGE ON SCHEMA public TO {RUNTIME_ROLE};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {RUNTIME_ROLE};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {RUNTIME_ROLE};
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {RUNTIME_ROLE};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {RUNTIME_ROLE};
"""
REVOKES = f"""
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM {RUNTIME_ROLE};
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE USAGE, SELECT ON SEQUENCES FROM {RUNTIME_ROLE};
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        BtreeGistExtension(),
        migrations.RunSQL(GRANTS, REVOKES),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("occurred_at", models.DateTimeField()),
                ("actor_kind", models.CharField(max_length=16)),
                ("actor_id", models.CharField(max_length=64)),
                ("actor_label", models.CharField(max_length=200)),
                ("action", models.CharField(max_length=64)),
                ("object_kind", models.CharField(max_length=64)),
                ("object_id", models.CharField(max_length=64)),
                ("organization_id", models.UUIDField(blank=True, null=True)),
                ("facts", models.JSONField(default=dict)),
                ("leaf", models.BinaryField(default=b"")),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
                    models.Index(
                        fields=["object_kind", "object_id", "-id"], name="audit_by_object"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Cluster",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("kubernetes_url", models.URLField(blank=True, default="")),
                ("prometheus_url", models.URLField(blank=True, default="")),
                ("credential_reference", models.CharField(blank=True, default="", max_length=200)),
                (
                    "selector_label",
                    models.CharField(
                        blank=True,
                        default="",
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-zA-Z_][a-zA-Z0-9_]*$",
                                "Use a Prometheus label name: letters, digits and underscores.",
                            )
                        ],
                    ),
                ),
                ("selector_value", models.CharField(blank=True, default="", max_length=128)),
                (
                    "scrape_interval_seconds",
                    models.PositiveIntegerField(
                        default=30, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("user_label", models.CharField(blank=True, default="", max_length=128)),
                ("label_aliases", models.JSONField(blank=True, default=dict)),
                ("metric_aliases", models.JSONField(blank=True, default=dict)),
                ("offered_resources", models.JSONField(blank=True, default=list)),
                ("metered_from", models.DateTimeField()),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["slug"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("scrape_interval_seconds__gte", 1)),
                        name="cluster_scrape_interval_positive",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("principal", models.CharField(max_length=96)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.JSONField()),
                ("headers", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "key"), name="idempotency_key_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Organization",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                (
                    "billing_currency",
                    models.CharField(
                        max_length=3,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Z]{3}$", "Use the three letters of ISO 4217."
                            )
                        ],
                    ),
                ),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("cost_center", models.CharField(blank=True, default="", max_length=64)),
                ("billing_contact", models.CharField(blank=True, default="", max_length=200)),
                ("billing_email", models.EmailField(blank=True, default="", max_length=254)),
                ("billing_address", models.TextField(blank=True, default="")),
                ("tax_id", models.CharField(blank=True, default="", max_length=64)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["slug"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("billing_currency__regex", "^[A-Z]{3}$")),
                        name="organization_currency_is_iso_4217",
                        violation_error_message="Use the three letters of ISO 4217.",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("cost_center", models.CharField(blank=True, default="", max_length=64)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="projects",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["organization__slug", "slug"],
            },
        ),
        migrations.CreateModel(
            name="NamespaceBinding",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="bindings",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "default_owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="bindings",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["cluster__slug", "namespace", "valid"],
            },
        ),
        migrations.CreateModel(
            name="ServiceAccount",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        max_length=63,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="service_accounts",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["organization__slug", "slug"],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("platform_admin", "Platform admin"),
                            ("finance_admin", "Finance admin"),
                            ("auditor", "Auditor"),
                            ("organization_admin", "Organization admin"),
                            ("project_lead", "Project lead"),
                            ("member", "Member"),
                        ],
                        max_length=32,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="tenants.project",
                    ),
                ),
                (
                    "service_account",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="tenants.serviceaccount",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("prefix", models.CharField(max_length=12, unique=True)),
                ("digest", models.BinaryField(max_length=32)),
                ("name", models.CharField(max_length=200)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "service_account",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to="tenants.serviceaccount",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.UniqueConstraint(
                fields=("organization", "slug"),
                name="project_slug_unique_in_organization",
                violation_error_message="The organization has a project with this slug.",
            ),
        ),
        migrations.AddConstraint(
            model_name="namespacebinding",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[("cluster", "="), ("namespace", "="), ("valid", "&&")],
                name="namespace_bindings_do_not_overlap",
                violation_error_message="The namespace is bound to a project at that time.",
            ),
        ),
        migrations.AddConstraint(
            model_name="serviceaccount",
            constraint=models.UniqueConstraint(
                fields=("organization", "slug"), name="service_account_slug_unique_in_organization"
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("service_account__isnull", True), ("user__isnull", False)),
                    models.Q(("service_account__isnull", False), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="membership_has_one_holder",
                violation_error_message="Name either a user or a service account.",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("organization__isnull", True),
                        ("project__isnull", True),
                        ("role__in", ["platform_admin", "finance_admin", "auditor"]),
                    ),
                    models.Q(
                        ("organization__isnull", False),
                        ("project__isnull", True),
                        ("role__in", ["organization_admin"]),
                    ),
                    models.Q(
                        ("organization__isnull", True),
                        ("project__isnull", False),
                        ("role__in", ["project_lead", "member"]),
                    ),
                    _connector="OR",
                ),
                name="membership_role_fits_scope",
                violation_error_message=(
                    "Platform roles take no scope, organization roles an organization, "
                    "project roles a project."
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(
                fields=("user", "service_account", "role", "organization", "project"),
                name="membership_unique",
                nulls_distinct=False,
                violation_error_message="This role is already held.",
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("service_account__isnull", True), ("user__isnull", False)),
                    models.Q(("service_account__isnull", False), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="api_token_has_one_holder",
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(("expires_at__gt", models.F("created_at"))),
                name="api_token_expires_after_creation",
            ),
        ),
    ]
