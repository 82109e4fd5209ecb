"""The tables of tenants, and the rights of the runtime role."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import BtreeGistExtension
from django.core.management import CommandError
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import StateApps

import tenants.domain.identifiers
from tenants.migrations._sql import install


def refuse_earlier_database(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - Django's signature.
    """Refuse a database that earlier migrations made: they are no longer there to build on."""
    recorded = MigrationRecorder(schema_editor.connection).applied_migrations()
    if {"tenants", "metering", "quotas", "billing"} & {app for app, _ in recorded}:
        raise CommandError(
            "An earlier version made this database, and its migrations were replaced:"
            " run `make clean`, or drop the database, then migrate a new one."
        )


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(refuse_earlier_database, migrations.RunPython.noop),
        BtreeGistExtension(),
        *install("tenants/sql/runtime_role.v1.sql"),
        migrations.CreateModel(
            name="ProcessClock",
            fields=[
                ("process", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("offset_seconds", models.BigIntegerField()),
                ("observed_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["process"],
            },
        ),
        migrations.CreateModel(
            name="SecretHost",
            fields=[
                ("secret", models.TextField(primary_key=True, serialize=False)),
                ("origin", models.CharField(max_length=267)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["secret"],
            },
        ),
        migrations.CreateModel(
            name="SweepCrash",
            fields=[
                ("event", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("count", models.BigIntegerField(default=1)),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("last_key", models.CharField(blank=True, default="", max_length=200)),
                ("last_error", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={
                "verbose_name_plural": "sweep crashes",
                "ordering": ["event"],
            },
        ),
        migrations.CreateModel(
            name="Verification",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("checks", models.JSONField(default=list)),
                ("is_nightly", models.BooleanField(default=False)),
                ("begun_by", models.CharField(blank=True, default="", max_length=63)),
                ("accepted_entry_id", models.PositiveBigIntegerField(default=0)),
                ("check_name", models.CharField(blank=True, default="", max_length=64)),
                ("cursor", models.JSONField(default=dict)),
                ("counts", models.JSONField(default=dict)),
                ("differences", models.JSONField(default=list)),
                ("difference_count", models.PositiveIntegerField(default=0)),
                ("audit_count", models.BigIntegerField(default=0)),
                ("audit_digest", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="AttemptCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("account", "An account, from networks it is not known from"),
                            ("network", "A network, for accounts not known from it"),
                            ("device", "An account in a browser that it has signed in with"),
                            ("pair", "An account from one network it is known from"),
                            ("token", "API tokens from a network"),
                            ("link", "Links to set a password that a network asks for"),
                            ("link_to", "Links to set a password for an address"),
                            ("forged", "Links that were never sent, from a network"),
                            ("inviter", "Invitations by an account"),
                            ("invited", "Invitations to an address"),
                        ],
                        max_length=8,
                    ),
                ),
                ("key", models.BinaryField(max_length=32)),
                ("since", models.DateTimeField()),
                ("attempts", models.IntegerField(default=1)),
                ("subject", models.CharField(max_length=64)),
            ],
            options={
                "indexes": [models.Index(fields=["since"], name="attempt_count_since")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "key", "since"), name="attempt_count_unique"
                    )
                ],
            },
        ),
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
                ("recorded_at", models.DateTimeField(editable=False, null=True)),
                ("transaction_id", models.BigIntegerField(editable=False, null=True)),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
                    models.Index(
                        fields=["object_kind", "object_id", "-id"], name="audit_by_object"
                    ),
                    models.Index(fields=["transaction_id"], name="audit_by_transaction"),
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
                ("is_watched", models.BooleanField(default=False)),
                ("prometheus_url", models.URLField(blank=True, default="")),
                (
                    "prometheus_credential_reference",
                    models.CharField(blank=True, default="", max_length=200),
                ),
                (
                    "prometheus_scope_org_id",
                    models.CharField(blank=True, default="", max_length=256),
                ),
                ("credential_reference", models.CharField(blank=True, default="", max_length=200)),
                ("credential_expires_at", models.DateTimeField(blank=True, null=True)),
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
                (
                    "admission_mode",
                    models.CharField(
                        choices=[("off", "Off"), ("warn", "Warn"), ("enforce", "Enforce")],
                        db_default="off",
                        default="off",
                        max_length=16,
                    ),
                ),
                (
                    "admission_on_failure",
                    models.CharField(
                        choices=[("allow", "Allow"), ("deny", "Deny")],
                        db_default="allow",
                        default="allow",
                        max_length=16,
                    ),
                ),
                (
                    "kubernetes_user_prefix",
                    models.CharField(blank=True, db_default="", default="", max_length=64),
                ),
                (
                    "trusted_controllers",
                    models.JSONField(
                        blank=True, db_default=models.Value([], models.JSONField()), default=list
                    ),
                ),
                (
                    "quota_target",
                    models.CharField(
                        choices=[("resource_quota", "Resource Quota"), ("kueue", "Kueue")],
                        db_default="resource_quota",
                        default="resource_quota",
                        max_length=16,
                    ),
                ),
                ("metered_from", models.DateTimeField()),
                ("metered_until", models.DateTimeField(blank=True, null=True)),
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
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("metered_until__isnull", True),
                            ("metered_until__gt", models.F("metered_from")),
                            _connector="OR",
                        ),
                        name="cluster_metered_until_after_from",
                    ),
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
                ("roles", models.JSONField()),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.JSONField()),
                ("headers", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                ("refused_at", models.DateTimeField(null=True)),
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
            name="NotificationEndpoint",
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
                    "kind",
                    models.CharField(
                        choices=[("mail", "Mail"), ("webhook", "Webhook")], max_length=16
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                ("events", models.JSONField(default=list)),
                ("secret_reference", models.CharField(blank=True, default="", max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notification_endpoints",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Notification",
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
                ("event", models.CharField(max_length=100)),
                ("subject", models.CharField(max_length=200)),
                ("text", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("key", models.CharField(blank=True, max_length=200, null=True, unique=True)),
                ("occurred_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notifications",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-occurred_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="PasswordLinkRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("left_address", models.EmailField(blank=True, default="", max_length=254)),
                ("requested_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PersonSession",
            fields=[
                (
                    "session_key",
                    models.CharField(
                        max_length=40, primary_key=True, serialize=False, verbose_name="session key"
                    ),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                ("public_id", models.UUIDField(db_index=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
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
            name="Invitation",
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
                ("email", models.CharField(max_length=254)),
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
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                ("attempts", models.PositiveSmallIntegerField(default=0, editable=False)),
                (
                    "accepted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "invited_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invitations",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invitations",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-id"],
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
        migrations.CreateModel(
            name="AccountChange",
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
                    "kind",
                    models.CharField(
                        choices=[
                            ("role", "role"),
                            ("staff", "staff"),
                            ("first_token", "first token"),
                            ("email", "email"),
                            ("username", "username"),
                            ("activate", "activate"),
                        ],
                        max_length=16,
                    ),
                ),
                ("value", models.CharField(blank=True, default="", max_length=254)),
                ("email", models.CharField(blank=True, default="", max_length=254)),
                ("username", models.CharField(max_length=150)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("approved", "approved"),
                            ("declined", "declined"),
                            ("expired", "expired"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("requested_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="account_changes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "open")),
                        fields=("subject", "kind", "value"),
                        name="account_change_open_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", True),
                                ("decided_by__isnull", True),
                                ("state__in", ["open", "expired"]),
                            ),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("state__in", ["approved", "declined"]),
                            ),
                            _connector="OR",
                        ),
                        name="account_change_decided_by_a_person",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_by", models.F("requested_by")),
                                ("state", "approved"),
                                _negated=True,
                            ),
                            ("kind", "email"),
                            _connector="OR",
                        ),
                        name="account_change_needs_two_people",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KnownNetwork",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("network", models.BinaryField(max_length=32)),
                ("seen_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["seen_at"], name="known_network_seen")],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "network"), name="known_network_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationDelivery",
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
                    "kind",
                    models.CharField(
                        choices=[("mail", "Mail"), ("webhook", "Webhook")], max_length=16
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("sent", "Sent"),
                            ("skipped", "Skipped"),
                            ("given_up", "Given Up"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("last_error", models.CharField(blank=True, default="", max_length=200)),
                ("created_at", models.DateTimeField()),
                (
                    "notification",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="tenants.notification",
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="tenants.notificationendpoint",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "notification deliveries",
                "ordering": ["-created_at", "id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")),
                        fields=["next_at"],
                        name="notification_delivery_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("notification", "kind", "address"),
                        name="notification_delivery_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "sent"), _negated=True),
                            ("sent_at__isnull", False),
                            _connector="OR",
                        ),
                        name="notification_delivery_sent_has_a_time",
                    ),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="notificationendpoint",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "active")),
                fields=("organization", "address"),
                name="notification_endpoint_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(fields=["occurred_at"], name="notification_occurred"),
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
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(
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
                name="invitation_role_fits_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("accepted_at", None), ("withdrawn_at", None)),
                fields=("email", "role", "organization", "project"),
                name="invitation_open_once",
                nulls_distinct=False,
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
                    "Platform roles take no scope, organization roles an organization, project "
                    "roles a project."
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
        *install("tenants/sql/tenants_auditentry_key.v1.sql"),
    ]
