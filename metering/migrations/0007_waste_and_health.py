"""Device events, credit proposals, cluster health and waste findings."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from tenants.migrations._ledger import drop_refusals, refuse

EVENT, PROPOSAL = "metering_deviceevent", "metering_creditproposal"
KEPT = (
    "cluster_id, window_id, node, uuid, instance_id, instance_profile, kind, code, severity,"
    " begin_at, metric, value_before, value_after, evidence"
)
DECIDED = (
    "event_id, window_id, window_start, usage_record, cluster_id, organization_id, project_id,"
    " owner, namespace, pod_name, pod_uid, resource, size, price_group, unit_seconds, is_certain,"
    " state, reason, created_at, decided_at, decided_by_id"
)
UNDECIDED = "('proposed', 'withdrawn')"


def row(name: str, columns: str = KEPT) -> str:
    """Return the columns that never change, of the row before or after."""
    return "ROW(" + ", ".join(f"{name}.{column.strip()}" for column in columns.split(",")) + ")"


def is_changed(columns: str) -> str:
    """Return SQL for a row of which some of these columns change."""
    return f"{row('OLD', columns)} IS DISTINCT FROM {row('NEW', columns)}"


FREEZE = "".join(
    (
        refuse(
            EVENT,
            operation="UPDATE",
            reason="what was seen of a device stays; only its end is told later",
            when=is_changed(KEPT),
        ),
        refuse(EVENT, operation="DELETE", reason="what was seen of a device stays"),
        refuse(EVENT, operation="TRUNCATE", reason="what was seen of a device stays"),
        refuse(
            PROPOSAL,
            operation="UPDATE",
            reason="a credit is decided once",
            when=f"OLD.state NOT IN {UNDECIDED} AND {is_changed(DECIDED)}",
        ),
        refuse(PROPOSAL, operation="DELETE", reason="a credit is decided, never forgotten"),
        refuse(PROPOSAL, operation="TRUNCATE", reason="a credit is decided, never forgotten"),
    )
)


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0006_devices"),
        ("tenants", "0003_two_sources"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DeviceEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(max_length=253)),
                ("uuid", models.CharField(max_length=64)),
                ("instance_id", models.CharField(blank=True, default="", max_length=16)),
                ("instance_profile", models.CharField(blank=True, default="", max_length=32)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("xid", "Xid"),
                            ("ecc", "Ecc"),
                            ("row_remap", "Row remap"),
                            ("nvlink", "Nvlink"),
                            ("throttle", "Throttle"),
                            ("health", "Health"),
                        ],
                        max_length=16,
                    ),
                ),
                ("code", models.CharField(max_length=64)),
                (
                    "severity",
                    models.CharField(
                        choices=[
                            ("fail", "Fail"),
                            ("warn", "Warn"),
                            ("application", "Application"),
                        ],
                        max_length=16,
                    ),
                ),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("metric", models.CharField(max_length=128)),
                (
                    "value_before",
                    models.DecimalField(blank=True, decimal_places=6, max_digits=38, null=True),
                ),
                ("value_after", models.DecimalField(decimal_places=6, max_digits=38)),
                ("evidence", models.JSONField(default=dict)),
                ("note", models.TextField(blank=True, default="")),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["-begin_at", "uuid", "kind", "code"],
            },
        ),
        migrations.CreateModel(
            name="CreditProposal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("usage_record", models.BigIntegerField()),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("unit_seconds", models.BigIntegerField()),
                ("retracted_unit_seconds", models.BigIntegerField(db_default=0, default=0)),
                ("is_certain", models.BooleanField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("accepted", "Accepted"),
                            ("dismissed", "Dismissed"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
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
                        related_name="+",
                        to="tenants.organization",
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
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="metering.meteringwindow",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="metering.deviceevent",
                    ),
                ),
            ],
            options={
                "ordering": ["-window_start", "id"],
            },
        ),
        migrations.CreateModel(
            name="WasteFinding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("not_running", "Not running"),
                            ("idle", "Idle"),
                            ("memory_parked", "Memory parked"),
                            ("imbalanced", "Imbalanced"),
                            ("low_use", "Low use"),
                            ("low_use_day", "Low use day"),
                            ("oversized", "Oversized"),
                        ],
                        max_length=24,
                    ),
                ),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("units", models.PositiveIntegerField()),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("suggested_units", models.PositiveIntegerField(default=0)),
                ("suggested_size", models.CharField(blank=True, default="", max_length=16)),
                ("suggested_price_group", models.CharField(blank=True, default="", max_length=96)),
                ("held_unit_seconds", models.BigIntegerField()),
                ("suggested_unit_seconds", models.BigIntegerField(default=0)),
                ("wasted_unit_seconds", models.BigIntegerField()),
                (
                    "activity_ratio",
                    models.DecimalField(blank=True, decimal_places=6, max_digits=7, null=True),
                ),
                ("memory_peak_mebibytes", models.BigIntegerField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("closed", "Closed"),
                            ("dismissed", "Dismissed"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField()),
                ("dismissed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "dismissed_by",
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
                        related_name="+",
                        to="tenants.organization",
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
            ],
            options={
                "ordering": ["-until_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="ClusterHealth",
            fields=[
                (
                    "window",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="health",
                        serialize=False,
                        to="metering.meteringwindow",
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("nodes", models.PositiveIntegerField()),
                ("expected_seconds", models.BigIntegerField(blank=True, null=True)),
                ("ready_seconds", models.BigIntegerField(blank=True, null=True)),
                ("node_source", models.CharField(blank=True, default="", max_length=16)),
                ("queued_pods", models.PositiveIntegerField(blank=True, null=True)),
                ("pending_pods", models.PositiveIntegerField(blank=True, null=True)),
                ("wait_seconds_p50", models.PositiveIntegerField(blank=True, null=True)),
                ("wait_seconds_max", models.PositiveIntegerField(blank=True, null=True)),
                ("memory_errors", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("devices", models.PositiveIntegerField(default=0)),
                ("corrections_seen", models.PositiveIntegerField(db_default=0, default=0)),
                ("created_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "cluster health",
                "ordering": ["-window_start", "cluster"],
                "indexes": [
                    models.Index(fields=["cluster", "-window_start"], name="cluster_health_by_time")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="deviceevent",
            index=models.Index(fields=["cluster", "node", "begin_at"], name="device_event_by_node"),
        ),
        migrations.AddConstraint(
            model_name="deviceevent",
            constraint=models.UniqueConstraint(
                fields=("cluster", "uuid", "instance_id", "kind", "code", "begin_at"),
                name="device_event_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="deviceevent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("end_at__isnull", True), ("end_at__gte", models.F("begin_at")), _connector="OR"
                ),
                name="device_event_forward",
            ),
        ),
        migrations.AddIndex(
            model_name="creditproposal",
            index=models.Index(fields=["state", "-window_start"], name="credit_proposal_open"),
        ),
        migrations.AddConstraint(
            model_name="creditproposal",
            constraint=models.UniqueConstraint(
                fields=("usage_record",), name="credit_proposal_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditproposal",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "withdrawn"), ("unit_seconds", 0)),
                    models.Q(
                        models.Q(("state", "withdrawn"), _negated=True), ("unit_seconds__gte", 1)
                    ),
                    _connector="OR",
                ),
                name="credit_proposal_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="creditproposal",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("retracted_unit_seconds__gte", 0),
                    ("retracted_unit_seconds__lte", models.F("unit_seconds")),
                ),
                name="credit_proposal_retracted_within",
            ),
        ),
        migrations.AddIndex(
            model_name="wastefinding",
            index=models.Index(fields=["state", "-until_at"], name="waste_finding_open"),
        ),
        migrations.AddConstraint(
            model_name="wastefinding",
            constraint=models.UniqueConstraint(
                fields=("cluster", "pod_uid", "resource", "rule", "from_at"),
                name="waste_finding_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="wastefinding",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")),
                fields=("cluster", "pod_uid", "resource"),
                name="waste_finding_one_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="wastefinding",
            constraint=models.CheckConstraint(
                condition=models.Q(("until_at__gt", models.F("from_at"))),
                name="waste_finding_forward",
            ),
        ),
        migrations.AddConstraint(
            model_name="wastefinding",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("wasted_unit_seconds__gte", 0),
                    ("wasted_unit_seconds__lte", models.F("held_unit_seconds")),
                ),
                name="waste_finding_within_what_was_held",
            ),
        ),
        migrations.RunSQL(FREEZE, drop_refusals(EVENT) + drop_refusals(PROPOSAL)),
    ]
