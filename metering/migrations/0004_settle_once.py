import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE, append_only, drop_refusals, refuse

USAGE = "metering_usagerecord"
ALLOCATION = "metering_podallocation"
DECISION = "metering_reconciliationdecision"

# A claim that several pods share is one amount, split among them; everything else is units x
# seconds to the second.
SPLIT = f"""
ALTER TABLE {USAGE} ADD COLUMN split_among integer NOT NULL DEFAULT 1 CHECK (split_among >= 1);
ALTER TABLE {USAGE} DROP CONSTRAINT metering_usagerecord_check1;
ALTER TABLE {USAGE} ADD CONSTRAINT metering_usage_is_units_by_seconds CHECK (
  CASE WHEN revision > 0 THEN true
       WHEN split_among = 1 THEN unit_seconds = units::bigint * seconds
       ELSE unit_seconds BETWEEN 0 AND units::bigint * seconds END);
CREATE OR REPLACE VIEW metering_sealed_usage AS
SELECT u.* FROM {USAGE} u JOIN metering_meteringwindow w ON w.id = u.window_id
 WHERE w.state = 'sealed';
"""
UNSPLIT = f"""
DROP VIEW metering_sealed_usage;
ALTER TABLE {USAGE} DROP CONSTRAINT metering_usage_is_units_by_seconds;
ALTER TABLE {USAGE} DROP COLUMN split_among;
ALTER TABLE {USAGE} ADD CONSTRAINT metering_usagerecord_check1
  CHECK (unit_seconds = units::bigint * seconds);
CREATE VIEW metering_sealed_usage AS
SELECT u.* FROM {USAGE} u JOIN metering_meteringwindow w ON w.id = u.window_id
 WHERE w.state = 'sealed';
GRANT SELECT ON metering_sealed_usage TO {RUNTIME_ROLE};
"""

BOUND = (
    "(OLD.cluster_id, OLD.pod_uid, OLD.resource, OLD.namespace, OLD.pod_name, OLD.node, OLD.owner,"
    " OLD.priority_class, OLD.source, OLD.units, OLD.begin_at)"
)
SIZE = (
    "(OLD.size, OLD.price_group, OLD.sharing_mode, OLD.share_numerator, OLD.share_denominator,"
    " OLD.product, OLD.catalogue_version)"
)


def _changes(columns):
    return f"{columns} IS DISTINCT FROM {columns.replace('OLD.', 'NEW.')}"


# A size is settled once: from "" to what the first catalogue that knows the device says. Labels
# are filled once, when the node was not known yet at the bind, and never after the size.
FILLED = (
    "(OLD.node_labels <> '{}' OR OLD.size <> '')"
    " AND OLD.node_labels IS DISTINCT FROM NEW.node_labels"
)
# What a source may not know at the bind is filled once, too.
LATE = " OR ".join(
    f"({known} AND {_changes(column)})"
    for known, column in (
        ("OLD.project_id IS NOT NULL", "OLD.project_id"),
        ("OLD.priority IS NOT NULL", "OLD.priority"),
        ("OLD.controller <> ''", "OLD.controller"),
    )
)
SETTLED = f"({_changes(BOUND)}) OR (OLD.size <> '' AND {_changes(SIZE)}) OR ({FILLED}) OR {LATE}"
BEFORE = (
    "(OLD.cluster_id, OLD.pod_uid, OLD.resource, OLD.namespace, OLD.pod_name, OLD.node, OLD.owner,"
    " OLD.units, OLD.size, OLD.price_group, OLD.sharing_mode, OLD.share_numerator,"
    " OLD.share_denominator, OLD.catalogue_version, OLD.begin_at)"
)
REASON = "what a pod held is settled at bind"
KEPT = "what a source told is kept"
# Nothing of the service deletes what a bill rests on; ends and gone_at are columns of it.
EVIDENCE = (
    "metering_watchspan",
    "metering_noderecord",
    "metering_queuedpod",
    "metering_claimconsumer",
    "metering_offereddevice",
)
KEEP_EVIDENCE = "".join(
    refuse(table, operation=operation, reason=KEPT)
    for table in EVIDENCE
    for operation in ("DELETE", "TRUNCATE")
)


# Rows are also written by statements that name only what they know.
DEFAULTS = f"""
ALTER TABLE metering_meteringwindow ALTER COLUMN reconciliation SET DEFAULT '{{}}';
ALTER TABLE {ALLOCATION} ALTER COLUMN controller SET DEFAULT '',
  ALTER COLUMN source SET DEFAULT 'prometheus', ALTER COLUMN end_slack_seconds SET DEFAULT 0;
"""
NO_DEFAULTS = f"""
ALTER TABLE metering_meteringwindow ALTER COLUMN reconciliation DROP DEFAULT;
ALTER TABLE {ALLOCATION} ALTER COLUMN controller DROP DEFAULT,
  ALTER COLUMN source DROP DEFAULT, ALTER COLUMN end_slack_seconds DROP DEFAULT;
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0003_two_sources")]

    operations = [
        migrations.RunSQL(DEFAULTS, NO_DEFAULTS),
        migrations.RunSQL(SPLIT, UNSPLIT),
        migrations.RunSQL(
            drop_refusals(ALLOCATION)
            + refuse(ALLOCATION, operation="UPDATE", reason=REASON, when=SETTLED)
            + refuse(ALLOCATION, operation="DELETE", reason="allocations are kept for ever")
            + refuse(ALLOCATION, operation="TRUNCATE", reason="allocations are never truncated"),
            drop_refusals(ALLOCATION)
            + refuse(ALLOCATION, operation="UPDATE", reason=REASON, when=_changes(BEFORE))
            + refuse(ALLOCATION, operation="TRUNCATE", reason="allocations are never truncated"),
        ),
        migrations.RunSQL(KEEP_EVIDENCE, "".join(drop_refusals(table) for table in EVIDENCE)),
        migrations.AddField(
            model_name="meteringwindow",
            name="gap_policy",
            field=models.CharField(
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
        migrations.AddField(
            model_name="meteringwindow",
            name="is_watched",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(fields=["cluster", "end_at"], name="allocation_by_end"),
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
                "indexes": [
                    models.Index(
                        fields=["cluster", "window_start"], name="reconciliation_decision_hour"
                    )
                ],
            },
        ),
        migrations.AlterField(
            model_name="meteringexception",
            name="kind",
            field=models.CharField(
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
                    ("differs", "Differs"),
                    ("kubernetes_only", "Kubernetes only"),
                    ("prometheus_only", "Prometheus only"),
                    ("request_differs", "Request differs"),
                    ("recovered", "Recovered"),
                    ("single_source", "Single source"),
                    ("held_hour", "Held hour"),
                ],
                max_length=32,
            ),
        ),
        migrations.RunSQL(
            append_only(DECISION, reason="decisions are changed by a later one"),
            drop_refusals(DECISION),
        ),
    ]
