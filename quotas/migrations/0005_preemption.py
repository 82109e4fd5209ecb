import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._ledger import RUNTIME_ROLE, drop_refusals, refuse

PLAN = "quotas_preemptionplan"
ACTION = "quotas_preemptionaction"
WINDOW = "quotas_protectedwindow"
SHOWN = (
    "(OLD.id, OLD.organization_id, OLD.reason, OLD.overage, OLD.remainders, OLD.planned_by,"
    " OLD.created_at)"
)
MEANT = (
    "(OLD.id, OLD.plan_id, OLD.victim, OLD.cluster_id, OLD.namespace, OLD.pod_name, OLD.pod_uid,"
    " OLD.controller, OLD.project_id, OLD.username, OLD.priority, OLD.is_burst, OLD.units,"
    " OLD.began_at, OLD.why)"
)
PROMISED = (
    "(OLD.id, OLD.organization_id, OLD.project_id, OLD.reason, OLD.created_by, OLD.created_at)"
)


def _changed(columns: str) -> str:
    return f"{columns} IS DISTINCT FROM {columns.replace('OLD.', 'NEW.')}"


# What was shown before a plan ran is what can be looked up after it. An ended plan stays as it
# ended; of an ended step only its Job may still be resumed.
TRIGGERS = (
    refuse(
        PLAN,
        operation="UPDATE",
        reason="a plan is what was shown, and ends once",
        when=f"OLD.state IN ('done', 'stopped', 'expired') OR {_changed(SHOWN)}",
    )
    + refuse(PLAN, operation="DELETE", reason="plans are kept for ever")
    + refuse(PLAN, operation="TRUNCATE", reason="plans are kept for ever")
    + refuse(
        ACTION,
        operation="UPDATE",
        reason="a step is about the pod it was planned for, and ends once",
        when=f"{_changed(MEANT)} OR (OLD.state IN ('freed', 'needless')"
        " AND OLD.state <> NEW.state) OR OLD.resumed_at IS NOT NULL",
    )
    + refuse(ACTION, operation="DELETE", reason="steps are kept for ever")
    + refuse(ACTION, operation="TRUNCATE", reason="steps are kept for ever")
    + refuse(
        WINDOW,
        operation="UPDATE",
        reason="only the end of a protected window moves",
        when=f"{_changed(PROMISED)} OR lower(OLD.valid) <> lower(NEW.valid)",
    )
    + refuse(WINDOW, operation="DELETE", reason="protected windows are kept for ever")
    + refuse(WINDOW, operation="TRUNCATE", reason="protected windows are kept for ever")
    + f"REVOKE DELETE, TRUNCATE ON {PLAN}, {ACTION}, {WINDOW} FROM {RUNTIME_ROLE};\n"
)


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0004_enforcement"),
        ("tenants", "0004_clusters_that_admit"),
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
                "ordering": ["organization"],
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
                ("began_at", models.DateTimeField()),
                ("why", models.TextField()),
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
        migrations.RunSQL(
            TRIGGERS, "".join(drop_refusals(table) for table in (PLAN, ACTION, WINDOW))
        ),
    ]
