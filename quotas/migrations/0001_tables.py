"""The tables of quotas."""

import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PreemptionPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="preemption_policy",
                        serialize=False,
                        to="tenants.organization",
                    ),
                ),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("off", "Nothing"),
                            ("propose", "Propose a plan"),
                            ("execute", "Execute a plan"),
                        ],
                        default="propose",
                        max_length=16,
                    ),
                ),
                ("over_since", models.DateTimeField(blank=True, null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "preemption policies",
                "ordering": ["organization"],
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
                (
                    "model_group",
                    models.CharField(blank=True, db_default="", default="", max_length=32),
                ),
                ("limit_units", models.PositiveIntegerField(blank=True, null=True)),
                ("burst_units", models.PositiveIntegerField(db_default=0, default=0)),
                ("overcommit_percent", models.PositiveIntegerField(db_default=100, default=100)),
                ("monthly_unit_hours", models.PositiveIntegerField(blank=True, null=True)),
                ("generation", models.PositiveIntegerField(default=1)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_limits",
                        to="tenants.cluster",
                    ),
                ),
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
            },
        ),
        migrations.CreateModel(
            name="LoanPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="loan_policy",
                        serialize=False,
                        to="tenants.organization",
                    ),
                ),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("off", "Off"),
                            ("propose", "Propose"),
                            ("automatic", "Automatic"),
                        ],
                        default="propose",
                        max_length=16,
                    ),
                ),
                ("max_units", models.PositiveIntegerField(default=8)),
                ("max_days", models.PositiveIntegerField(default=7)),
                ("keep_free_percent", models.PositiveIntegerField(default=20)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "loan policies",
                "ordering": ["organization__slug"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("keep_free_percent__lte", 100),
                            ("max_days__gte", 1),
                            ("max_days__lte", 92),
                            ("max_units__gte", 1),
                        ),
                        name="loan_policy_sensible",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PreemptionPlan",
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
                    "reason",
                    models.CharField(
                        choices=[
                            ("over_limit", "Over a limit"),
                            ("burst_yield", "Burst must yield"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("planned", "Planned"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("stopped", "Stopped"),
                            ("expired", "Expired"),
                        ],
                        default="planned",
                        max_length=16,
                    ),
                ),
                ("is_dry_run", models.BooleanField(db_default=True, default=True)),
                ("overage", models.JSONField(default=list)),
                ("remainders", models.JSONField(default=list)),
                ("planned_by", models.CharField(max_length=150)),
                ("executed_by", models.CharField(blank=True, default="", max_length=150)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("notified_at", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("message", models.TextField(blank=True, default="")),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="preemption_plans",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="PreemptionAction",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("victim", models.PositiveIntegerField()),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("pod_uid", models.CharField(max_length=64)),
                ("controller", models.CharField(blank=True, default="", max_length=320)),
                ("username", models.CharField(blank=True, default="", max_length=150)),
                ("priority", models.IntegerField(default=0)),
                ("is_burst", models.BooleanField(default=False)),
                ("units", models.JSONField(default=dict)),
                ("started_at", models.DateTimeField()),
                ("reason", models.TextField()),
                (
                    "step",
                    models.CharField(
                        choices=[("suspend", "Suspend its Job"), ("evict", "Evict it")],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("planned", "Planned"),
                            ("claimed", "Claimed"),
                            ("started", "Started"),
                            ("freed", "Freed"),
                            ("blocked", "Blocked"),
                            ("needs_person", "Needs person"),
                            ("needless", "Needless"),
                        ],
                        default="planned",
                        max_length=16,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(blank=True, null=True)),
                ("outcome", models.CharField(blank=True, default="", max_length=16)),
                ("message", models.TextField(blank=True, default="")),
                ("acted_at", models.DateTimeField(blank=True, null=True)),
                ("job_uid", models.CharField(blank=True, default="", max_length=64)),
                ("resumed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.project",
                    ),
                ),
                (
                    "plan",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="actions",
                        to="quotas.preemptionplan",
                    ),
                ),
            ],
            options={
                "ordering": ["plan", "victim", "pod_name", "id"],
            },
        ),
        migrations.CreateModel(
            name="ProtectedWindow",
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
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.CharField(max_length=200)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="protected_windows",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="QuotaCounter",
            fields=[
                (
                    "limit",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="counter",
                        serialize=False,
                        to="quotas.quotalimit",
                    ),
                ),
                ("held_units", models.BigIntegerField(db_default=0, default=0)),
                ("reserved_units", models.BigIntegerField(db_default=0, default=0)),
                ("burst_held_units", models.BigIntegerField(db_default=0, default=0)),
                ("burst_reserved_units", models.BigIntegerField(db_default=0, default=0)),
                ("month", models.DateField(blank=True, null=True)),
                ("month_unit_seconds", models.BigIntegerField(db_default=0, default=0)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("drift_units", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "ordering": ["limit"],
            },
        ),
        migrations.CreateModel(
            name="QuotaGrant",
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
                ("units", models.IntegerField()),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                (
                    "reason",
                    models.CharField(
                        choices=[("request", "Request"), ("loan", "Loan"), ("manual", "Manual")],
                        max_length=16,
                    ),
                ),
                ("reference", models.CharField(blank=True, default="", max_length=64)),
                ("note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "limit",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="grants",
                        to="quotas.quotalimit",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_grants",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_grants",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["limit", "valid", "id"],
            },
        ),
        migrations.CreateModel(
            name="QuotaLoan",
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
                (
                    "model_group",
                    models.CharField(blank=True, db_default="", default="", max_length=32),
                ),
                ("units", models.PositiveIntegerField()),
                ("begin_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("active", "Active"),
                            ("declined", "Declined"),
                            ("lapsed", "Lapsed"),
                            ("ended", "Ended"),
                            ("recalled", "Recalled"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("lender_idle_units", models.PositiveIntegerField()),
                ("borrower_missing_units", models.PositiveIntegerField()),
                ("is_automatic", models.BooleanField(db_default=False, default=False)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "borrower",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="loans_taken",
                        to="tenants.project",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
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
                    "lender",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="loans_given",
                        to="tenants.project",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_loans",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
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
                (
                    "model_group",
                    models.CharField(blank=True, db_default="", default="", max_length=32),
                ),
                ("requested_units", models.PositiveIntegerField()),
                ("burst_units", models.PositiveIntegerField(blank=True, null=True)),
                ("begin_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("units_before", models.PositiveIntegerField(blank=True, null=True)),
                ("burst_before", models.PositiveIntegerField(blank=True, null=True)),
                ("is_unlimited_before", models.BooleanField(db_default=False, default=False)),
                ("peak_units", models.PositiveIntegerField(blank=True, null=True)),
                ("justification", models.TextField()),
                (
                    "cost",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("submitted", "Submitted"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("cancelled", "Cancelled"),
                            ("expired", "Expired"),
                        ],
                        default="submitted",
                        max_length=16,
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                ("is_automatic", models.BooleanField(db_default=False, default=False)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
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
                    "renews",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="renewals",
                        to="quotas.quotarequest",
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
                (
                    "supersedes",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successors",
                        to="quotas.quotarequest",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="QuotaSuspension",
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
                ("reason", models.TextField()),
                ("source", models.CharField(blank=True, default="", max_length=32)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="suspensions",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="suspensions",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-begin_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="RequestComment",
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
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="comments",
                        to="quotas.quotarequest",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="RequestPolicy",
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
                ("currency", models.CharField(blank=True, default="", max_length=3)),
                ("steps", models.JSONField(default=list)),
                ("automatic_units", models.JSONField(blank=True, default=dict)),
                (
                    "automatic_cost",
                    models.DecimalField(blank=True, decimal_places=4, max_digits=20, null=True),
                ),
                ("escalate_after_hours", models.PositiveIntegerField(blank=True, null=True)),
                ("expire_after_days", models.PositiveIntegerField(default=30)),
                ("remind_days", models.PositiveIntegerField(default=7)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="request_policy",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "request policies",
                "ordering": ["organization__slug", "id"],
            },
        ),
        migrations.CreateModel(
            name="RequestStep",
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
                ("position", models.PositiveSmallIntegerField()),
                (
                    "level",
                    models.CharField(
                        choices=[
                            ("project_lead", "Project lead"),
                            ("organization_admin", "Organization admin"),
                            ("platform", "Platform"),
                            ("finance", "Finance"),
                        ],
                        max_length=32,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("open", "Open"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("escalated", "Escalated"),
                            ("closed", "Closed"),
                        ],
                        default="waiting",
                        max_length=16,
                    ),
                ),
                ("escalates_at", models.DateTimeField(blank=True, null=True)),
                ("is_raised", models.BooleanField(default=False)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("note", models.TextField(blank=True, default="")),
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
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="quotas.quotarequest",
                    ),
                ),
            ],
            options={
                "ordering": ["request", "position"],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=260)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                (
                    "controller",
                    models.CharField(blank=True, db_default="", default="", max_length=320),
                ),
                ("owner", models.CharField(blank=True, db_default="", default="", max_length=150)),
                (
                    "username",
                    models.CharField(blank=True, db_default="", default="", max_length=150),
                ),
                (
                    "size",
                    models.CharField(
                        blank=True,
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        max_length=16,
                    ),
                ),
                ("units", models.PositiveIntegerField()),
                (
                    "model_groups",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), default=list, size=None
                    ),
                ),
                ("is_burst", models.BooleanField(db_default=False, default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("reserved", "Reserved"),
                            ("held", "Held"),
                            ("released", "Released"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        choices=[("admission", "Admission"), ("found", "Found")], max_length=16
                    ),
                ),
                ("admitted_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("held_at", models.DateTimeField(blank=True, null=True)),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                (
                    "release_reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("ended", "Ended"),
                            ("expired", "Expired"),
                            ("gone", "Gone"),
                            ("handed_over", "Handed Over"),
                            ("unbound", "Unbound"),
                            ("unsized", "Unsized"),
                        ],
                        db_default="",
                        default="",
                        max_length=16,
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reservations",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reservations",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reservations",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-admitted_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="AdmissionRefusal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("workload", models.CharField(max_length=320)),
                ("code", models.CharField(max_length=32)),
                (
                    "size",
                    models.CharField(
                        blank=True,
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        default="",
                        max_length=16,
                    ),
                ),
                ("units", models.PositiveIntegerField(default=0)),
                ("username", models.CharField(blank=True, default="", max_length=150)),
                ("message", models.TextField(blank=True, default="")),
                ("count", models.PositiveIntegerField(default=1)),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-last_at", "id"],
                "indexes": [
                    models.Index(fields=["project", "last_at"], name="admission_refusal_recent"),
                    models.Index(fields=["last_at"], name="admission_refusal_last"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "namespace", "workload", "code", "size"),
                        name="admission_refusal_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("last_at__gte", models.F("first_at"))),
                        name="admission_refusal_forward",
                    ),
                ],
            },
        ),
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
                (
                    "desired_burst",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                ("desired_generation", models.PositiveBigIntegerField(default=0)),
                ("applied_generation", models.PositiveBigIntegerField(default=0)),
                ("ceiling_hard", models.JSONField(default=dict)),
                (
                    "ceiling_burst",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                ("is_held", models.BooleanField(db_default=False, default=False)),
                (
                    "applied_hard",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                (
                    "applied_burst",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                ("live_hard", models.JSONField(default=dict)),
                ("live_used", models.JSONField(default=dict)),
                (
                    "live_burst",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                (
                    "live_burst_used",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
                (
                    "foreign_quotas",
                    models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
                ),
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
                (
                    "drift_managers",
                    models.JSONField(
                        blank=True, db_default=models.Value([], models.JSONField()), default=list
                    ),
                ),
                ("drifts_repaired", models.PositiveIntegerField(db_default=0, default=0)),
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
            name="IsolationPolicy",
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
                    "work_kind",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("training", "Training"),
                            ("development", "Development"),
                            ("inference", "Inference"),
                        ],
                        db_default="",
                        default="",
                        max_length=16,
                    ),
                ),
                (
                    "modes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("dedicated", "Whole GPU of a dedicated node"),
                                ("whole", "Whole GPU"),
                                ("mig", "MIG instance"),
                                ("mps", "MPS"),
                                ("time-slicing", "Time-slicing"),
                            ],
                            max_length=16,
                        ),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "allow_shared_with_other_tenants",
                    models.BooleanField(db_default=False, default=False),
                ),
                (
                    "default_kind",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("training", "Training"),
                            ("development", "Development"),
                            ("inference", "Inference"),
                        ],
                        db_default="",
                        default="",
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="isolation_policies",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="isolation_policies",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "isolation policies",
                "ordering": ["organization__slug", "project__slug", "work_kind"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "project", "work_kind"),
                        name="isolation_policy_unique",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "modes__contained_by",
                                ["dedicated", "whole", "mig", "mps", "time-slicing"],
                            )
                        ),
                        name="isolation_policy_modes_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("work_kind", ""), ("default_kind", ""), _connector="OR"
                        ),
                        name="isolation_policy_kind_of_any",
                        violation_error_message=(
                            "Only a policy for any kind of work has a default kind."
                        ),
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="preemptionplan",
            index=models.Index(
                condition=models.Q(("state", "running")),
                fields=["not_before"],
                name="preemption_plan_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="preemptionplan",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "running")),
                fields=("organization",),
                name="preemption_plan_one_running",
            ),
        ),
        migrations.AddConstraint(
            model_name="preemptionplan",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("not_before__isnull", False), ("state", "running")),
                    models.Q(("state", "running"), _negated=True),
                    _connector="OR",
                ),
                name="preemption_plan_runs_at_a_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="preemptionaction",
            constraint=models.UniqueConstraint(
                fields=("plan", "cluster", "pod_uid"), name="preemption_action_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="protectedwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("valid__endswith__isnull", False), ("valid__startswith__isnull", False)
                    ),
                    ("valid__isempty", True),
                    _connector="OR",
                ),
                name="protected_window_is_bounded",
                violation_error_message="A protected window has a begin and an end.",
            ),
        ),
        migrations.AddConstraint(
            model_name="protectedwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cancelled_at__isnull", True),
                    ("cancelled_at__lte", models.F("valid__startswith")),
                    _connector="OR",
                ),
                name="protected_window_cancelled_before_begin",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotacounter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("held_units__gte", 0),
                    ("reserved_units__gte", 0),
                    ("burst_held_units__gte", 0),
                    ("burst_reserved_units__gte", 0),
                ),
                name="quota_counter_never_below_zero",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("project__isnull", True), ("scope", "organization"), ("user__isnull", True)
                    ),
                    models.Q(
                        ("project__isnull", False), ("scope", "project"), ("user__isnull", True)
                    ),
                    models.Q(
                        ("project__isnull", False), ("scope", "user"), ("user__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="quota_limit_scope_fits",
                violation_error_message="A project limit names a project, a user limit both.",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.UniqueConstraint(
                fields=("organization", "project", "user", "size", "model_group", "cluster"),
                name="quota_limit_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("overcommit_percent__gte", 100), ("overcommit_percent__lte", 1000)
                ),
                name="quota_limit_overcommit_sensible",
                violation_error_message="Overcommit is 100 to 1000 percent.",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotagrant",
            constraint=models.CheckConstraint(
                condition=models.Q(("units", 0), _negated=True), name="quota_grant_is_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="quotagrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("valid__isempty", True), ("valid__startswith__isnull", False), _connector="OR"
                ),
                name="quota_grant_has_a_begin",
            ),
        ),
        migrations.AddIndex(
            model_name="quotaloan",
            index=models.Index(
                condition=models.Q(("state", "active")), fields=["end_at"], name="quota_loan_ending"
            ),
        ),
        migrations.AddConstraint(
            model_name="quotaloan",
            constraint=models.CheckConstraint(
                condition=models.Q(("lender", models.F("borrower")), _negated=True),
                name="quota_loan_is_between_two",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotaloan",
            constraint=models.CheckConstraint(
                condition=models.Q(("units__gte", 1)), name="quota_loan_is_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="quotaloan",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("begin_at__isnull", True),
                    ("end_at__gte", models.F("begin_at")),
                    _connector="OR",
                ),
                name="quota_loan_forward",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotaloan",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("begin_at__isnull", True),
                        ("state__in", ["proposed", "declined", "lapsed"]),
                    ),
                    models.Q(
                        ("begin_at__isnull", False), ("state__in", ["active", "ended", "recalled"])
                    ),
                    _connector="OR",
                ),
                name="quota_loan_in_force_has_a_begin",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotaloan",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "proposed")),
                fields=("lender", "borrower", "size", "model_group", "cluster"),
                name="quota_loan_proposed_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="quotarequest",
            index=models.Index(
                condition=models.Q(("state", "submitted")),
                fields=["expires_at"],
                name="quota_request_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotarequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["approved", "rejected"]), _negated=True),
                    models.Q(("decided_at__isnull", False), ("decided_by__isnull", False)),
                    models.Q(
                        ("decided_at__isnull", False), ("is_automatic", True), ("state", "approved")
                    ),
                    _connector="OR",
                ),
                name="quota_request_decision_is_signed",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotarequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "approved"), _negated=True),
                    models.Q(("decided_by", models.F("requested_by")), _negated=True),
                    _connector="OR",
                ),
                name="quota_request_approver_is_not_requester",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotarequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "approved"), _negated=True),
                    ("user__isnull", True),
                    ("decided_by__isnull", True),
                    models.Q(("decided_by", models.F("user")), _negated=True),
                    _connector="OR",
                ),
                name="quota_request_approver_is_not_user",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotarequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("begin_at__isnull", True),
                    ("end_at__isnull", True),
                    ("end_at__gt", models.F("begin_at")),
                    _connector="OR",
                ),
                name="quota_request_ends_after_its_begin",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotasuspension",
            constraint=models.UniqueConstraint(
                condition=models.Q(("end_at__isnull", True)),
                fields=("organization", "project", "source"),
                name="quota_suspension_one_open",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="requestpolicy",
            constraint=models.UniqueConstraint(
                fields=("organization",), name="request_policy_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="requeststep",
            constraint=models.UniqueConstraint(
                fields=("request", "position"), name="request_step_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="requeststep",
            constraint=models.UniqueConstraint(
                condition=models.Q(("outcome", "open")),
                fields=("request",),
                name="request_step_one_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="requeststep",
            constraint=models.UniqueConstraint(
                condition=models.Q(("decided_by__isnull", False)),
                fields=("request", "decided_by"),
                name="request_step_one_per_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="requeststep",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("outcome__in", ["approved", "rejected"]), _negated=True),
                    models.Q(("decided_at__isnull", False), ("decided_by__isnull", False)),
                    _connector="OR",
                ),
                name="request_step_is_signed",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("state", "released"), _negated=True),
                fields=["organization", "project"],
                name="reservation_live",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("state", "reserved")),
                fields=["organization", "expires_at"],
                name="reservation_expiring",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("resource__startswith", "claim/")),
                fields=["cluster", "namespace", "pod_name"],
                name="reservation_claims",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("state", "released")),
                fields=["released_at"],
                name="reservation_released",
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.UniqueConstraint(
                fields=("cluster", "pod_uid", "resource"), name="reservation_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(("units__gte", 1)), name="reservation_units_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("released_at__isnull", False), ("state", "released")),
                    models.Q(
                        models.Q(("state", "released"), _negated=True),
                        ("released_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="reservation_release_has_its_time",
            ),
        ),
    ]
