"""The tables of metering."""

import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0002_functions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UsageRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_start", models.DateTimeField()),
                ("owner", models.CharField(max_length=150)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                ("revision", models.PositiveIntegerField(default=0)),
                ("node", models.CharField(max_length=253)),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("sharing_mode", models.CharField(max_length=16)),
                ("share_numerator", models.PositiveIntegerField()),
                ("share_denominator", models.PositiveIntegerField()),
                ("units", models.PositiveIntegerField()),
                ("split_among", models.PositiveIntegerField(default=1)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField()),
                ("seconds", models.IntegerField()),
                ("unit_seconds", models.BigIntegerField()),
                ("end_kind", models.CharField(max_length=16)),
                ("slack_seconds", models.PositiveIntegerField(default=0)),
                ("catalogue_version", models.PositiveIntegerField()),
            ],
            options={
                "db_table": "metering_usagerecord",
                "ordering": ["window_start", "id"],
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="CatalogueVersion",
            fields=[
                ("version", models.PositiveIntegerField(primary_key=True, serialize=False)),
                ("rules", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("note", models.TextField(blank=True, db_default="", default="")),
                (
                    "created_by",
                    models.CharField(blank=True, db_default="", default="", max_length=150),
                ),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["-version"],
            },
        ),
        migrations.CreateModel(
            name="MeteringWindow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("start_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("collecting", "Collecting"),
                            ("collected", "Collected"),
                            ("reconciled", "Reconciled"),
                            ("sealed", "Sealed"),
                            ("gap", "Gap"),
                            ("quarantined", "Quarantined"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("fence", models.BigIntegerField(default=0)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("accepts_low_coverage", models.BooleanField(default=False)),
                (
                    "gap_policy",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("accept", "accept"),
                            ("waive", "waive"),
                            ("last_known", "last known"),
                            ("hold", "hold"),
                        ],
                        db_default="",
                        default="",
                        max_length=16,
                    ),
                ),
                (
                    "shown",
                    models.JSONField(
                        blank=True, db_default=models.Value({}, models.JSONField()), default=dict
                    ),
                ),
                (
                    "decided_on",
                    models.JSONField(
                        blank=True, db_default=models.Value({}, models.JSONField()), default=dict
                    ),
                ),
                ("is_watched", models.BooleanField(db_default=False, default=False)),
                ("lease_owner", models.CharField(blank=True, default="", max_length=64)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField()),
                ("as_of", models.DateTimeField(blank=True, null=True)),
                ("sources", models.JSONField(blank=True, default=list)),
                ("expected_ticks", models.PositiveIntegerField(blank=True, null=True)),
                ("observed_ticks", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "coverage",
                    models.DecimalField(blank=True, decimal_places=5, max_digits=6, null=True),
                ),
                ("unobserved_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("longest_hole_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("hidden_unit_seconds_max", models.JSONField(blank=True, null=True)),
                ("scrape_targets", models.JSONField(blank=True, db_default=[], default=list)),
                (
                    "watch_coverage",
                    models.DecimalField(blank=True, decimal_places=5, max_digits=6, null=True),
                ),
                ("reconciliation", models.JSONField(blank=True, db_default={}, default=dict)),
                ("evidence", models.JSONField(blank=True, default=list)),
                ("catalogue_version", models.PositiveIntegerField(blank=True, null=True)),
                ("record_count", models.PositiveIntegerField(default=0)),
                ("record_digest", models.CharField(blank=True, default="", max_length=64)),
                ("last_error", models.TextField(blank=True, default="")),
                ("collected_at", models.DateTimeField(blank=True, null=True)),
                ("sealed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="windows",
                        to="tenants.cluster",
                    ),
                ),
            ],
            options={
                "ordering": ["cluster", "start_at"],
            },
        ),
        migrations.CreateModel(
            name="ClusterWatch",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="watch",
                        serialize=False,
                        to="tenants.cluster",
                    ),
                ),
                ("fence", models.BigIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, default="", max_length=64)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("healthy_at", models.DateTimeField(blank=True, null=True)),
                ("last_error", models.TextField(blank=True, default="")),
            ],
            options={
                "ordering": ["cluster"],
            },
        ),
        migrations.CreateModel(
            name="CapacityRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("node", models.CharField(max_length=253)),
                ("resource", models.CharField(max_length=128)),
                ("size", models.CharField(blank=True, default="", max_length=16)),
                ("price_group", models.CharField(blank=True, default="", max_length=96)),
                (
                    "sharing_mode",
                    models.CharField(blank=True, db_default="", default="", max_length=16),
                ),
                ("share_numerator", models.PositiveIntegerField(default=1)),
                ("share_denominator", models.PositiveIntegerField(default=1)),
                ("allocatable_units", models.PositiveIntegerField()),
                ("capacity_unit_seconds", models.BigIntegerField()),
                ("billed_unit_seconds", models.BigIntegerField()),
                ("held_unit_seconds", models.BigIntegerField()),
                ("idle_unit_seconds", models.BigIntegerField()),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity_records",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "node", "resource"],
            },
        ),
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
            name="DeviceUsage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("node", models.CharField(max_length=253)),
                ("uuid", models.CharField(max_length=64)),
                ("model", models.CharField(blank=True, default="", max_length=128)),
                ("instance_id", models.CharField(blank=True, default="", max_length=16)),
                ("instance_profile", models.CharField(blank=True, default="", max_length=32)),
                (
                    "attribution",
                    models.CharField(
                        choices=[
                            ("exclusive", "Exclusive"),
                            ("shared", "Shared"),
                            ("idle", "Idle"),
                            ("unattributed", "Unattributed"),
                            ("overhead", "Overhead"),
                        ],
                        max_length=16,
                    ),
                ),
                ("namespace", models.CharField(blank=True, default="", max_length=63)),
                ("pod_name", models.CharField(blank=True, default="", max_length=253)),
                ("pod_uid", models.CharField(blank=True, default="", max_length=64)),
                ("resource", models.CharField(blank=True, default="", max_length=128)),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("size", models.CharField(blank=True, default="", max_length=16)),
                ("price_group", models.CharField(blank=True, default="", max_length=96)),
                ("sharing_mode", models.CharField(blank=True, default="", max_length=16)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField()),
                ("seconds", models.PositiveIntegerField()),
                ("busy_ratio", models.DecimalField(decimal_places=6, max_digits=7, null=True)),
                ("busy_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                ("is_busy_uncertain", models.BooleanField(default=False)),
                ("sm_active_ratio", models.DecimalField(decimal_places=6, max_digits=7, null=True)),
                (
                    "sm_active_coverage",
                    models.DecimalField(decimal_places=5, max_digits=6, null=True),
                ),
                (
                    "tensor_active_ratio",
                    models.DecimalField(decimal_places=6, max_digits=7, null=True),
                ),
                (
                    "tensor_active_coverage",
                    models.DecimalField(decimal_places=5, max_digits=6, null=True),
                ),
                (
                    "dram_active_ratio",
                    models.DecimalField(decimal_places=6, max_digits=7, null=True),
                ),
                (
                    "dram_active_coverage",
                    models.DecimalField(decimal_places=5, max_digits=6, null=True),
                ),
                ("memory_used_peak_mebibytes", models.PositiveIntegerField(null=True)),
                ("memory_total_mebibytes", models.PositiveIntegerField(null=True)),
                ("memory_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                ("power_mean_milliwatts", models.PositiveIntegerField(null=True)),
                ("power_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                ("energy_millijoules", models.BigIntegerField(null=True)),
                ("energy_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.project",
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="device_usage",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "node", "uuid", "instance_id", "begin_at"],
            },
        ),
        migrations.CreateModel(
            name="MeteringException",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("unknown_device", "Unknown device"),
                            ("unbound_namespace", "Unbound namespace"),
                            ("unknown_node", "Unknown node"),
                            ("invalid_request", "Invalid request"),
                            ("inconsistent_metrics", "Inconsistent metrics"),
                            ("uncertain_end", "Uncertain end"),
                            ("over_capacity", "Over capacity"),
                            ("low_coverage", "Low coverage"),
                            ("source_unavailable", "Source unavailable"),
                            ("quarantined", "Quarantined"),
                            ("overdue", "Overdue"),
                            ("differs", "Differs"),
                            ("kubernetes_only", "Kubernetes only"),
                            ("prometheus_only", "Prometheus only"),
                            ("request_differs", "Request differs"),
                            ("recovered", "Recovered"),
                            ("single_source", "Single source"),
                            ("held_hour", "Held hour"),
                            ("devices_unavailable", "Devices unavailable"),
                        ],
                        max_length=32,
                    ),
                ),
                ("subject", models.CharField(max_length=320)),
                ("namespace", models.CharField(blank=True, default="", max_length=63)),
                ("summary", models.TextField()),
                ("remedy", models.TextField()),
                ("held_unit_seconds", models.BigIntegerField(default=0)),
                ("details", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("resolved", "Resolved")],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                ("resolution", models.TextField(blank=True, default="")),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="exceptions",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "resolved_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="exceptions",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["-window_start", "kind", "subject"],
            },
        ),
        migrations.CreateModel(
            name="NodeRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(max_length=253)),
                ("node_uid", models.CharField(max_length=64)),
                ("labels", models.JSONField(default=dict)),
                ("allocatable", models.JSONField(default=dict)),
                ("is_ready", models.BooleanField(default=True)),
                ("is_schedulable", models.BooleanField(default=True)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ["cluster", "node", "begin_at"],
            },
        ),
        migrations.CreateModel(
            name="OfferedDevice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("driver", models.CharField(max_length=253)),
                ("pool", models.CharField(max_length=253)),
                ("device", models.CharField(max_length=253)),
                ("slice_name", models.CharField(max_length=253)),
                ("node", models.CharField(blank=True, default="", max_length=253)),
                ("attributes", models.JSONField(default=dict)),
                ("gone_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ["cluster", "driver", "pool", "device"],
            },
        ),
        migrations.CreateModel(
            name="PodAllocation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("node", models.CharField(max_length=253)),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("priority_class", models.CharField(blank=True, default="", max_length=253)),
                ("priority", models.IntegerField(blank=True, null=True)),
                (
                    "controller",
                    models.CharField(blank=True, db_default="", default="", max_length=320),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[("kubernetes", "Kubernetes"), ("prometheus", "Prometheus")],
                        db_default="prometheus",
                        default="prometheus",
                        max_length=16,
                    ),
                ),
                ("units", models.PositiveIntegerField()),
                ("size", models.CharField(blank=True, default="", max_length=16)),
                ("price_group", models.CharField(blank=True, default="", max_length=96)),
                ("sharing_mode", models.CharField(blank=True, default="", max_length=16)),
                ("product", models.CharField(blank=True, default="", max_length=128)),
                ("share_numerator", models.PositiveIntegerField(default=1)),
                ("share_denominator", models.PositiveIntegerField(default=1)),
                ("catalogue_version", models.PositiveIntegerField(blank=True, null=True)),
                ("node_labels", models.JSONField(default=dict)),
                ("begin_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("end_slack_seconds", models.PositiveIntegerField(db_default=0, default=0)),
                (
                    "end_kind",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("exact", "Exact"),
                            ("vanished", "Vanished"),
                            ("vanished_in_gap", "Vanished in gap"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("last_seen_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="tenants.cluster",
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
                "ordering": ["-begin_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="QueuedPod",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pod_uid", models.CharField(max_length=64)),
                ("namespace", models.CharField(max_length=63)),
                ("pod_name", models.CharField(max_length=253)),
                ("requests", models.JSONField(default=dict)),
                ("priority_class", models.CharField(blank=True, default="", max_length=253)),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("created_at", models.DateTimeField()),
                ("bound_at", models.DateTimeField(blank=True, null=True)),
                ("deletion_at", models.DateTimeField(blank=True, null=True)),
                ("gone_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.CharField(blank=True, default="", max_length=128)),
                ("defects", models.JSONField(blank=True, default=list)),
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
                "ordering": ["cluster", "created_at"],
            },
        ),
        migrations.CreateModel(
            name="ReconciliationDecision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                (
                    "side",
                    models.CharField(
                        choices=[("kubernetes", "Kubernetes"), ("prometheus", "Prometheus")],
                        max_length=16,
                    ),
                ),
                (
                    "namespace",
                    models.CharField(blank=True, db_default="", default="", max_length=253),
                ),
                (
                    "known_as",
                    models.CharField(blank=True, db_default="", default="", max_length=16),
                ),
                ("begin_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("slack_seconds", models.PositiveIntegerField(db_default=0, default=0)),
                ("units", models.PositiveIntegerField(db_default=0, default=0)),
                ("note", models.TextField()),
                ("decided_at", models.DateTimeField()),
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
            ],
            options={
                "ordering": ["cluster", "window_start", "id"],
            },
        ),
        migrations.CreateModel(
            name="UsageActivity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("pod_uid", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=128)),
                ("busy_ratio", models.DecimalField(decimal_places=6, max_digits=7, null=True)),
                ("busy_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                ("energy_millijoules", models.BigIntegerField(null=True)),
                (
                    "window",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "pod_uid", "resource"],
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
            name="WatchCursor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=32)),
                ("resource_version", models.CharField(max_length=64)),
                ("listed_at", models.DateTimeField()),
                ("is_afresh", models.BooleanField(db_default=False, default=False)),
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
                "ordering": ["cluster", "kind"],
            },
        ),
        migrations.CreateModel(
            name="WatchSpan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("begin_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("is_resumed", models.BooleanField()),
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
                "ordering": ["cluster", "begin_at"],
            },
        ),
        migrations.CreateModel(
            name="WindowRecheck",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("window_start", models.DateTimeField()),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("scheduled", "Scheduled"),
                            ("person", "Person"),
                            ("binding", "Binding"),
                            ("catalogue", "Catalogue"),
                            ("decision", "Decision"),
                            ("watch", "Watch"),
                        ],
                        max_length=16,
                    ),
                ),
                ("key", models.CharField(max_length=64)),
                ("after_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("note", models.TextField(blank=True, default="")),
                ("requested_by", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("due", "Due"),
                            ("checking", "Checking"),
                            ("done", "Done"),
                            ("lapsed", "Lapsed"),
                            ("failed", "Failed"),
                        ],
                        default="due",
                        max_length=16,
                    ),
                ),
                ("not_before", models.DateTimeField()),
                ("fence", models.BigIntegerField(db_default=0, default=0)),
                ("attempt", models.PositiveIntegerField(db_default=0, default=0)),
                ("failures", models.PositiveIntegerField(db_default=0, default=0)),
                (
                    "lease_owner",
                    models.CharField(blank=True, db_default="", default="", max_length=64),
                ),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("queried_at", models.DateTimeField(blank=True, null=True)),
                ("evidence", models.JSONField(blank=True, db_default=[], default=list)),
                ("outcome", models.JSONField(blank=True, db_default={}, default=dict)),
                ("last_error", models.TextField(blank=True, db_default="", default="")),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
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
                        related_name="rechecks",
                        to="metering.meteringwindow",
                    ),
                ),
            ],
            options={
                "ordering": ["-not_before", "-id"],
            },
        ),
        migrations.CreateModel(
            name="UsageCorrection",
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
                ("window_start", models.DateTimeField()),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("late_data", "Late data"),
                            ("released", "Released"),
                            ("manual", "Manual"),
                            ("retraction", "Retraction"),
                        ],
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField()),
                ("evidence", models.JSONField(blank=True, default=list)),
                ("lines", models.JSONField()),
                ("record_count", models.PositiveIntegerField()),
                ("unit_seconds", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("posted", "Posted"),
                            ("rejected", "Rejected"),
                        ],
                        max_length=16,
                    ),
                ),
                ("requested_by", models.CharField(max_length=200)),
                ("requested_by_id", models.CharField(max_length=64)),
                ("requested_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
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
                        related_name="corrections",
                        to="metering.meteringwindow",
                    ),
                ),
                (
                    "recheck",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="corrections",
                        to="metering.windowrecheck",
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="ClaimConsumer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("claim_uid", models.CharField(max_length=64)),
                ("pod_uid", models.CharField(max_length=64)),
                ("pod_name", models.CharField(max_length=253)),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ["cluster", "claim_uid", "begin_at", "pod_uid"],
                "indexes": [
                    models.Index(fields=["cluster", "pod_uid"], name="claim_consumer_by_pod")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "claim_uid", "pod_uid", "begin_at"),
                        name="claim_consumer_unique",
                    )
                ],
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
            },
        ),
        migrations.CreateModel(
            name="DeviceWindow",
            fields=[
                (
                    "window",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="devices",
                        serialize=False,
                        to="metering.meteringwindow",
                    ),
                ),
                ("window_start", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("due", "Due"),
                            ("collecting", "Collecting"),
                            ("sealed", "Sealed"),
                            ("unavailable", "Unavailable"),
                        ],
                        default="due",
                        max_length=16,
                    ),
                ),
                ("fence", models.BigIntegerField(default=0)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, default="", max_length=64)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField()),
                ("missing_figures", models.JSONField(blank=True, default=list)),
                ("evidence", models.JSONField(blank=True, default=list)),
                ("row_count", models.PositiveIntegerField(default=0)),
                ("row_digest", models.CharField(blank=True, default="", max_length=64)),
                ("last_error", models.TextField(blank=True, default="")),
                ("sealed_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ["window_start", "window"],
            },
        ),
        migrations.AddIndex(
            model_name="meteringwindow",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["open", "collecting", "collected", "reconciled"])
                ),
                fields=["not_before"],
                name="window_due",
            ),
        ),
        migrations.AddIndex(
            model_name="meteringwindow",
            index=models.Index(
                condition=models.Q(("state", "sealed"), _negated=True),
                fields=["start_at"],
                name="window_unsealed",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteringwindow",
            constraint=models.UniqueConstraint(
                fields=("cluster", "start_at"), name="window_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="meteringwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(("start_at__minute", 0), ("start_at__second", 0)),
                name="window_starts_on_the_hour",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteringwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_until__isnull", False), ("state", "collecting")),
                    models.Q(
                        models.Q(("state", "collecting"), _negated=True),
                        ("lease_until__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="window_lease_only_while_collecting",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteringwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "sealed"), _negated=True),
                    models.Q(("as_of__isnull", False), ("sealed_at__isnull", False)),
                    _connector="OR",
                ),
                name="window_sealed_has_evidence_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="meteringwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("observed_ticks__isnull", True),
                    ("observed_ticks__lte", models.F("expected_ticks")),
                    _connector="OR",
                ),
                name="window_observed_within_expected",
            ),
        ),
        migrations.AddConstraint(
            model_name="capacityrecord",
            constraint=models.UniqueConstraint(
                fields=("window", "node", "resource"), name="capacity_record_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="capacityrecord",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "capacity_unit_seconds",
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                models.F("billed_unit_seconds"), "+", models.F("held_unit_seconds")
                            ),
                            "+",
                            models.F("idle_unit_seconds"),
                        ),
                    )
                ),
                name="capacity_adds_up",
            ),
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
            model_name="deviceusage",
            index=models.Index(fields=["project", "window_start"], name="device_usage_by_project"),
        ),
        migrations.AddIndex(
            model_name="deviceusage",
            index=models.Index(fields=["cluster", "window_start"], name="device_usage_by_cluster"),
        ),
        migrations.AddIndex(
            model_name="deviceusage",
            index=models.Index(
                condition=models.Q(
                    ("attribution", "exclusive"), models.Q(("instance_id", ""), _negated=True)
                ),
                fields=["window_start"],
                name="device_usage_instances",
            ),
        ),
        migrations.AddConstraint(
            model_name="deviceusage",
            constraint=models.UniqueConstraint(
                fields=(
                    "window",
                    "uuid",
                    "instance_id",
                    "instance_profile",
                    "begin_at",
                    "attribution",
                    "window_start",
                    "organization",
                ),
                name="device_usage_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="deviceusage",
            constraint=models.CheckConstraint(
                condition=models.Q(("end_at__gt", models.F("begin_at"))),
                name="device_usage_forward",
            ),
        ),
        migrations.AddConstraint(
            model_name="deviceusage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("attribution", "exclusive"), _negated=True),
                    models.Q(models.Q(("pod_uid", ""), _negated=True), ("project__isnull", False)),
                    _connector="OR",
                ),
                name="device_usage_exclusive_has_its_pod",
            ),
        ),
        migrations.AddIndex(
            model_name="meteringexception",
            index=models.Index(fields=["state", "-window_start"], name="metering_exception_open"),
        ),
        migrations.AddConstraint(
            model_name="meteringexception",
            constraint=models.UniqueConstraint(
                fields=("window", "kind", "subject"), name="metering_exception_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="noderecord",
            index=models.Index(fields=["cluster", "begin_at"], name="node_record_by_time"),
        ),
        migrations.AddIndex(
            model_name="noderecord",
            index=models.Index(fields=["cluster", "node", "begin_at"], name="node_record_by_node"),
        ),
        migrations.AddConstraint(
            model_name="noderecord",
            constraint=models.UniqueConstraint(
                condition=models.Q(("end_at__isnull", True)),
                fields=("cluster", "node"),
                name="node_record_one_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="noderecord",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("end_at__isnull", True), ("end_at__gte", models.F("begin_at")), _connector="OR"
                ),
                name="node_record_forward",
            ),
        ),
        migrations.AddConstraint(
            model_name="offereddevice",
            constraint=models.UniqueConstraint(
                fields=("cluster", "driver", "pool", "device"), name="offered_device_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(
                condition=models.Q(("end_at__isnull", True)),
                fields=["cluster", "namespace"],
                name="allocation_open",
            ),
        ),
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(
                condition=models.Q(("size", "")), fields=["cluster"], name="allocation_unsized"
            ),
        ),
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(fields=["cluster", "end_at"], name="allocation_by_end"),
        ),
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(
                condition=models.Q(("sharing_mode__in", ["time-slicing", "mps"])),
                fields=["begin_at"],
                name="allocation_shared",
            ),
        ),
        migrations.AddConstraint(
            model_name="podallocation",
            constraint=models.UniqueConstraint(
                fields=("cluster", "pod_uid", "resource"), name="allocation_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="podallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("end_at__isnull", True), ("end_at__gte", models.F("begin_at")), _connector="OR"
                ),
                name="allocation_ends_after_it_begins",
            ),
        ),
        migrations.AddConstraint(
            model_name="podallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(("units__gte", 1)), name="allocation_units_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="podallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("share_denominator__gte", models.F("share_numerator")),
                    ("share_numerator__gte", 1),
                ),
                name="allocation_share_is_a_fraction",
            ),
        ),
        migrations.AddConstraint(
            model_name="podallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("size", ""), ("catalogue_version__isnull", False), _connector="OR"
                ),
                name="allocation_size_has_its_catalogue",
            ),
        ),
        migrations.AddIndex(
            model_name="queuedpod",
            index=models.Index(
                condition=models.Q(("bound_at__isnull", True), ("gone_at__isnull", True)),
                fields=["cluster", "created_at"],
                name="queued_pod_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="queuedpod",
            index=models.Index(
                condition=models.Q(("gone_at__isnull", True)),
                fields=["cluster", "deletion_at"],
                name="queued_pod_there",
            ),
        ),
        migrations.AddConstraint(
            model_name="queuedpod",
            constraint=models.UniqueConstraint(
                fields=("cluster", "pod_uid"), name="queued_pod_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="reconciliationdecision",
            index=models.Index(
                fields=["cluster", "window_start"], name="reconciliation_decision_hour"
            ),
        ),
        migrations.AddConstraint(
            model_name="usageactivity",
            constraint=models.UniqueConstraint(
                fields=("window", "pod_uid", "resource"), name="usage_activity_unique"
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
                name="waste_finding_within_held",
            ),
        ),
        migrations.AddConstraint(
            model_name="watchcursor",
            constraint=models.UniqueConstraint(
                fields=("cluster", "kind"), name="watch_cursor_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="watchspan",
            constraint=models.UniqueConstraint(
                fields=("cluster", "begin_at"), name="watch_span_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="watchspan",
            constraint=models.CheckConstraint(
                condition=models.Q(("until_at__gte", models.F("begin_at"))),
                name="watch_span_forward",
            ),
        ),
        migrations.AddIndex(
            model_name="windowrecheck",
            index=models.Index(
                condition=models.Q(("state__in", ["due", "checking"])),
                fields=["not_before"],
                name="window_recheck_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="windowrecheck",
            constraint=models.UniqueConstraint(
                fields=("window", "reason", "key"), name="window_recheck_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="windowrecheck",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_until__isnull", False), ("state", "checking")),
                    models.Q(
                        models.Q(("state", "checking"), _negated=True),
                        ("lease_until__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="window_recheck_lease_only_while_checking",
            ),
        ),
        migrations.AddIndex(
            model_name="usagecorrection",
            index=models.Index(fields=["state", "-window_start"], name="usage_correction_by_state"),
        ),
        migrations.AddIndex(
            model_name="usagecorrection",
            index=models.Index(
                fields=["project", "-window_start"], name="usage_correction_by_project"
            ),
        ),
        migrations.AddConstraint(
            model_name="usagecorrection",
            constraint=models.CheckConstraint(
                condition=models.Q(("record_count__gte", 1)), name="usage_correction_has_records"
            ),
        ),
        migrations.AddConstraint(
            model_name="usagecorrection",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "proposed"), ("decided_at__isnull", True)),
                    models.Q(
                        models.Q(("state", "proposed"), _negated=True),
                        ("decided_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="usage_correction_decided_once",
            ),
        ),
        migrations.AddIndex(
            model_name="clusterhealth",
            index=models.Index(fields=["cluster", "-window_start"], name="cluster_health_by_time"),
        ),
        migrations.AddIndex(
            model_name="devicewindow",
            index=models.Index(
                condition=models.Q(("state__in", ["due", "collecting"])),
                fields=["not_before"],
                name="device_window_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="devicewindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_until__isnull", False), ("state", "collecting")),
                    models.Q(
                        models.Q(("state", "collecting"), _negated=True),
                        ("lease_until__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="device_window_lease_only_while_collecting",
            ),
        ),
        migrations.AddConstraint(
            model_name="devicewindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["due", "collecting"]),
                    ("sealed_at__isnull", False),
                    _connector="OR",
                ),
                name="device_window_final_has_time",
            ),
        ),
        # Triggers of partitions need the function as long as there is one.
        *install(
            "metering/sql/metering_check_usage.v1.sql", "metering/sql/metering_usagerecord.v1.sql"
        ),
        *install("metering/sql/metering_deviceusage_key.v1.sql"),
    ]
