import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="EnforcementTarget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("desired_hard", models.JSONField(default=dict)),
                ("desired_generation", models.PositiveBigIntegerField(default=0)),
                ("applied_generation", models.PositiveBigIntegerField(default=0)),
                ("ceiling_hard", models.JSONField(default=dict)),
                ("live_hard", models.JSONField(default=dict)),
                ("live_used", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("applied", "Applied"),
                            ("conflict", "Conflict"),
                            ("failed", "Failed"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField()),
                ("last_error", models.TextField(blank=True, default="")),
                ("drifted_at", models.DateTimeField(blank=True, null=True)),
                ("applied_at", models.DateTimeField(blank=True, null=True)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="targets",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="targets",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["cluster__slug", "namespace"],
                "indexes": [models.Index(fields=["not_before"], name="enforcement_target_due")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "namespace"), name="enforcement_target_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaLimit",
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
                    "scope",
                    models.CharField(
                        choices=[
                            ("organization", "Organization"),
                            ("project", "Project"),
                            ("user", "User"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "size",
                    models.CharField(
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        max_length=16,
                    ),
                ),
                ("limit_units", models.PositiveIntegerField()),
                ("generation", models.PositiveIntegerField(default=1)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_limits",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_limits",
                        to="tenants.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_limits",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["organization__slug", "scope", "project__slug", "size"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("project__isnull", True),
                                ("scope", "organization"),
                                ("user__isnull", True),
                            ),
                            models.Q(
                                ("project__isnull", False),
                                ("scope", "project"),
                                ("user__isnull", True),
                            ),
                            models.Q(
                                ("project__isnull", False),
                                ("scope", "user"),
                                ("user__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="quota_limit_scope_fits",
                        violation_error_message=(
                            "A project limit names a project, a user limit both."
                        ),
                    ),
                    models.UniqueConstraint(
                        fields=("organization", "project", "user", "size"),
                        name="quota_limit_unique",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaRequest",
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
                    "size",
                    models.CharField(
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        max_length=16,
                    ),
                ),
                ("requested_units", models.PositiveIntegerField()),
                ("units_before", models.PositiveIntegerField(blank=True, null=True)),
                ("justification", models.TextField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("submitted", "Submitted"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="submitted",
                        max_length=16,
                    ),
                ),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
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
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_requests",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_requests",
                        to="tenants.project",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_requests",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["approved", "rejected"]), _negated=True),
                            models.Q(("decided_at__isnull", False), ("decided_by__isnull", False)),
                            _connector="OR",
                        ),
                        name="quota_request_decision_is_signed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "approved"), _negated=True),
                            models.Q(("decided_by", models.F("requested_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="quota_request_nobody_approves_their_own",
                    ),
                ],
            },
        ),
    ]
