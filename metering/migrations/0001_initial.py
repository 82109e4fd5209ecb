import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_initial"),
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
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField()),
                ("seconds", models.IntegerField()),
                ("unit_seconds", models.BigIntegerField()),
                ("end_kind", models.CharField(max_length=16)),
                ("slack_seconds", models.PositiveIntegerField(default=0)),
                ("catalogue_version", models.PositiveIntegerField()),
                ("busy_ratio", models.DecimalField(decimal_places=6, max_digits=7, null=True)),
                ("busy_coverage", models.DecimalField(decimal_places=5, max_digits=6, null=True)),
                ("energy_millijoules", models.BigIntegerField(null=True)),
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
                            ("uncertain_end", "Uncertain end"),
                            ("over_capacity", "Over capacity"),
                            ("low_coverage", "Low coverage"),
                            ("source_unavailable", "Source unavailable"),
                            ("quarantined", "Quarantined"),
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
                ("units", models.PositiveIntegerField()),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("sharing_mode", models.CharField(max_length=16)),
                ("product", models.CharField(blank=True, default="", max_length=128)),
                ("share_numerator", models.PositiveIntegerField()),
                ("share_denominator", models.PositiveIntegerField()),
                ("catalogue_version", models.PositiveIntegerField()),
                ("node_labels", models.JSONField(default=dict)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
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
            ],
            options={
                "ordering": ["-begin_at", "id"],
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
            model_name="podallocation",
            index=models.Index(
                condition=models.Q(("end_at__isnull", True)),
                fields=["cluster", "namespace"],
                name="allocation_open",
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
    ]
