import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0005_preemption"),
        ("tenants", "0005_notifications"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
            ],
            options={
                "ordering": ["request", "position"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="quotarequest",
            name="quota_request_decision_is_signed",
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="begin_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="burst_units",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="cluster",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.cluster",
            ),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="cost",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="end_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="expires_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="is_automatic",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="model_group",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="burst_before",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="is_unlimited_before",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="peak_units",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="renews",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="renewals",
                to="quotas.quotarequest",
            ),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="supersedes",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="successors",
                to="quotas.quotarequest",
            ),
        ),
        migrations.AddField(
            model_name="quotarequest",
            name="user",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="quotarequest",
            name="state",
            field=models.CharField(
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
                    ("user__isnull", True),
                    ("decided_by__isnull", True),
                    models.Q(("decided_by", models.F("user")), _negated=True),
                    _connector="OR",
                ),
                name="quota_request_nobody_approves_for_themselves",
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
        migrations.AddField(
            model_name="requestcomment",
            name="author",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="requestcomment",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="comments",
                to="quotas.quotarequest",
            ),
        ),
        migrations.AddField(
            model_name="requestpolicy",
            name="organization",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="request_policy",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="requeststep",
            name="decided_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="requeststep",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="steps",
                to="quotas.quotarequest",
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
                name="request_step_one_a_person",
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
    ]
