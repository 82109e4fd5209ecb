import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_refusals, drop_triggers, refuse

TABLE = "metering_deviceusage"
WINDOW = "metering_meteringwindow"

# One look at the whole statement: the windows exist, agree with the rows, and are not sealed.
CHECK_FUNCTIONS = f"""
CREATE FUNCTION metering_check_device_usage() RETURNS trigger LANGUAGE plpgsql
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
CREATE FUNCTION metering_keep_sealed_device_usage() RETURNS trigger LANGUAGE plpgsql
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
TRIGGERS = (
    always(
        TABLE,
        f"{TABLE}_checks_insert",
        f"AFTER INSERT ON {TABLE} REFERENCING NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_check_device_usage()",
    )
    + always(
        TABLE,
        f"{TABLE}_keeps_sealed",
        f"AFTER DELETE ON {TABLE} REFERENCING OLD TABLE AS old_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_usage()",
    )
    + refuse(TABLE, operation="UPDATE", reason="device usage is replaced, never edited")
    + refuse(TABLE, operation="TRUNCATE", reason="device usage is never truncated")
    + f"REVOKE UPDATE, TRUNCATE ON {TABLE} FROM {RUNTIME_ROLE};\n"
)


class Migration(migrations.Migration):
    dependencies = [("metering", "0005_corrections")]

    operations = [
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
                ("is_busy_doubtful", models.BooleanField(default=False)),
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
                "indexes": [
                    models.Index(
                        fields=["project", "window_start"], name="device_usage_by_project"
                    ),
                    models.Index(
                        fields=["cluster", "window_start"], name="device_usage_by_cluster"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "window",
                            "uuid",
                            "instance_id",
                            "instance_profile",
                            "begin_at",
                            "attribution",
                        ),
                        name="device_usage_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("end_at__gt", models.F("begin_at"))),
                        name="device_usage_forward",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("attribution", "exclusive"), _negated=True),
                            models.Q(
                                models.Q(("pod_uid", ""), _negated=True), ("project__isnull", False)
                            ),
                            _connector="OR",
                        ),
                        name="device_usage_exclusive_has_its_pod",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            CHECK_FUNCTIONS,
            "DROP FUNCTION metering_check_device_usage();"
            " DROP FUNCTION metering_keep_sealed_device_usage();",
        ),
        migrations.RunSQL(
            TRIGGERS,
            drop_refusals(TABLE)
            + drop_triggers(TABLE, f"{TABLE}_checks_insert", f"{TABLE}_keeps_sealed"),
        ),
    ]
