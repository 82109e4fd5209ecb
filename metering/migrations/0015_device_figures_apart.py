"""Device figures get a state and a seal of their own, apart from the bill's."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_refusals, drop_triggers, refuse

ACTIVITY = "metering_usageactivity"
WINDOW, DEVICES = "metering_meteringwindow", "metering_devicewindow"
FINAL = "('sealed', 'unavailable')"
KINDS = (
    "unknown_device",
    "unbound_namespace",
    "unknown_node",
    "invalid_request",
    "inconsistent_metrics",
    "uncertain_end",
    "over_capacity",
    "low_coverage",
    "source_unavailable",
    "quarantined",
    "overdue",
    "differs",
    "kubernetes_only",
    "prometheus_only",
    "request_differs",
    "recovered",
    "single_source",
    "held_hour",
    "devices_unavailable",
)

# One statement for all new rows: the windows exist, agree with them, and still take figures.
CHECK_USAGE = f"""
CREATE OR REPLACE FUNCTION metering_check_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.uuid, d.state INTO offender
    FROM new_rows n LEFT JOIN {WINDOW} w ON w.id = n.window_id
    LEFT JOIN {DEVICES} d ON d.window_id = n.window_id
   WHERE w.id IS NULL OR d.state IN {FINAL}
      OR w.start_at <> n.window_start OR w.cluster_id <> n.cluster_id
      OR n.begin_at < w.start_at OR n.end_at > w.start_at + interval '1 hour'
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: devices of window %, %, do not take %',
      offender.window_id, COALESCE(offender.state, 'not due'), offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed device figures take no rows; window, cluster and times must agree.';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION metering_keep_sealed_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM old_rows o JOIN {DEVICES} d USING (window_id)
              WHERE d.state IN {FINAL}) THEN
    RAISE EXCEPTION 'DELETE on % is refused: its device figures are sealed', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;
"""
CHECK_USAGE_BEFORE = f"""
CREATE OR REPLACE FUNCTION metering_check_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.uuid, w.state INTO offender
    FROM new_rows n LEFT JOIN {WINDOW} w ON w.id = n.window_id
   WHERE w.id IS NULL OR w.state = 'sealed'
      OR w.start_at <> n.window_start OR w.cluster_id <> n.cluster_id
      OR n.begin_at < w.start_at OR n.end_at > w.start_at + interval '1 hour'
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: window % in state % does not take %',
      offender.window_id, offender.state, offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed windows take no device usage; window, cluster and times must agree.';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION metering_keep_sealed_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM old_rows o JOIN {WINDOW} w ON w.id = o.window_id
              WHERE w.state = 'sealed') THEN
    RAISE EXCEPTION 'DELETE on device usage is refused: the window is sealed'
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;
"""
CHECK_ACTIVITY = f"""
CREATE FUNCTION metering_check_usage_activity() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.pod_uid, d.state INTO offender
    FROM new_rows n LEFT JOIN {WINDOW} w ON w.id = n.window_id
    LEFT JOIN {DEVICES} d ON d.window_id = n.window_id
   WHERE w.id IS NULL OR d.state IN {FINAL} OR w.start_at <> n.window_start
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage activity is refused: devices of window %, %, do not take %',
      offender.window_id, COALESCE(offender.state, 'not due'), offender.pod_uid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed device figures take no rows; window and time must agree.';
  END IF;
  RETURN NULL;
END $$;
"""
TRIGGERS = (
    always(
        ACTIVITY,
        f"{ACTIVITY}_checks_insert",
        f"AFTER INSERT ON {ACTIVITY} REFERENCING NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage_activity()",
    )
    + always(
        ACTIVITY,
        f"{ACTIVITY}_keeps_sealed",
        f"AFTER DELETE ON {ACTIVITY} REFERENCING OLD TABLE AS old_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_usage()",
    )
    + refuse(ACTIVITY, operation="UPDATE", reason="device figures are replaced, never edited")
    + refuse(ACTIVITY, operation="TRUNCATE", reason="device figures are never truncated")
    + f"REVOKE UPDATE, TRUNCATE ON {ACTIVITY} FROM {RUNTIME_ROLE};\n"
    + refuse(
        DEVICES,
        operation="UPDATE",
        reason="the device figures are sealed",
        when=f"OLD.state IN {FINAL}",
    )
    + refuse(DEVICES, operation="DELETE", reason="windows are kept for ever")
    + refuse(DEVICES, operation="TRUNCATE", reason="windows are kept for ever")
)


class Migration(migrations.Migration):
    dependencies = [("metering", "0014_unsealed_windows"), ("tenants", "0007_retention")]

    operations = [
        migrations.AddField(
            model_name="capacityrecord",
            name="sharing_mode",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.AlterField(
            model_name="meteringexception",
            name="kind",
            field=models.CharField(
                choices=[(kind, kind.replace("_", " ").capitalize()) for kind in KINDS],
                max_length=32,
            ),
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
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["due", "collecting"])),
                        fields=["not_before"],
                        name="device_window_due",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
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
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["due", "collecting"]),
                            ("sealed_at__isnull", False),
                            _connector="OR",
                        ),
                        name="device_window_final_has_time",
                    ),
                ],
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("window", "pod_uid", "resource"), name="usage_activity_unique"
                    )
                ],
            },
        ),
        migrations.RunSQL(CHECK_USAGE, CHECK_USAGE_BEFORE),
        migrations.RunSQL(CHECK_ACTIVITY, "DROP FUNCTION metering_check_usage_activity();"),
        migrations.RunSQL(
            TRIGGERS,
            drop_refusals(ACTIVITY)
            + drop_triggers(ACTIVITY, f"{ACTIVITY}_checks_insert", f"{ACTIVITY}_keeps_sealed")
            + drop_refusals(DEVICES),
        ),
    ]
