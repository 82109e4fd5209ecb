from importlib import import_module

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._ledger import (
    RUNTIME_ROLE,
    always,
    drop_refusals,
    drop_triggers,
    refuse,
)

USAGE = "metering_usagerecord"
WINDOW = "metering_meteringwindow"
CORRECTION = "metering_usagecorrection"
RECHECK = "metering_windowrecheck"
BEFORE = import_module("metering.migrations.0002_usage_ledger").CHECK_FUNCTION

COLUMN = f"""
ALTER TABLE {USAGE} ADD COLUMN correction_id uuid;
CREATE INDEX metering_usage_by_correction ON {USAGE} (correction_id)
 WHERE correction_id IS NOT NULL;
CREATE OR REPLACE VIEW metering_sealed_usage AS
SELECT u.* FROM {USAGE} u JOIN {WINDOW} w ON w.id = u.window_id WHERE w.state = 'sealed';
"""
NO_COLUMN = f"""
DROP VIEW metering_sealed_usage;
DROP INDEX metering_usage_by_correction;
ALTER TABLE {USAGE} DROP COLUMN correction_id;
CREATE VIEW metering_sealed_usage AS
SELECT u.* FROM {USAGE} u JOIN {WINDOW} w ON w.id = u.window_id WHERE w.state = 'sealed';
GRANT SELECT ON metering_sealed_usage TO {RUNTIME_ROLE};
"""

# Windows take metered records until they are sealed, and records of their posted corrections
# after. A correction has exactly the records it tells, and takes no pod's use below nothing.
CHECK_FUNCTION = f"""
CREATE OR REPLACE FUNCTION metering_check_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.pod_uid, w.state INTO offender
    FROM new_rows n
    LEFT JOIN {WINDOW} w ON w.id = n.window_id
    LEFT JOIN tenants_project p ON p.id = n.project_id
    LEFT JOIN {CORRECTION} c ON c.id = n.correction_id
   WHERE w.id IS NULL OR (w.state = 'sealed') <> (n.correction_id IS NOT NULL)
      OR (n.revision > 0) <> (n.correction_id IS NOT NULL)
      OR w.start_at <> n.window_start OR w.cluster_id <> n.cluster_id
      OR p.organization_id IS DISTINCT FROM n.organization_id
      OR (n.correction_id IS NOT NULL
          AND (c.state, c.window_id, c.project_id)
              IS DISTINCT FROM ('posted', n.window_id, n.project_id))
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: window % in state % does not take pod %',
      offender.window_id, offender.state, offender.pod_uid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed windows take posted corrections only; '
                   'window, cluster and project must agree.';
  END IF;
  IF NOT EXISTS (SELECT FROM new_rows WHERE correction_id IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  SELECT c.id INTO offender
    FROM {CORRECTION} c
   CROSS JOIN LATERAL (
     SELECT count(*) AS records, sum(u.unit_seconds) AS unit_seconds FROM {USAGE} u
      WHERE u.correction_id = c.id AND u.window_start = c.window_start) written
   WHERE c.id IN (SELECT correction_id FROM new_rows)
     AND (written.records, written.unit_seconds)
         IS DISTINCT FROM (c.record_count::bigint, c.unit_seconds::numeric)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: correction % has other records', offender.id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A posted correction has exactly the records it tells, written at once.';
  END IF;
  SELECT u.pod_uid, sum(u.unit_seconds) AS unit_seconds INTO offender
    FROM {USAGE} u
   WHERE (u.window_start, u.cluster_id, u.pod_uid, u.resource) IN (
     SELECT window_start, cluster_id, pod_uid, resource FROM new_rows)
   GROUP BY u.window_start, u.cluster_id, u.pod_uid, u.resource
  HAVING sum(u.unit_seconds) < 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on usage is refused: pod % would have used % unit-seconds',
      offender.pod_uid, offender.unit_seconds
      USING ERRCODE = 'restrict_violation', HINT = 'Nobody uses less than nothing.';
  END IF;
  RETURN NULL;
END $$;
"""

# Looked at when the transaction commits: what is posted is written.
POSTED_FUNCTION = f"""
CREATE FUNCTION metering_posted_is_written() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM {USAGE} u WHERE u.correction_id = NEW.id AND u.window_start = NEW.window_start
    HAVING count(*) = NEW.record_count AND sum(u.unit_seconds) = NEW.unit_seconds) THEN
    RAISE EXCEPTION 'correction % is posted without its records', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Write the records in the same transaction.';
  END IF;
  RETURN NULL;
END $$;
"""
ASKED = (
    "(OLD.id, OLD.window_id, OLD.window_start, OLD.cluster_id, OLD.organization_id,"
    " OLD.project_id, OLD.cause, OLD.reason, OLD.recheck_id, OLD.evidence, OLD.lines,"
    " OLD.record_count, OLD.unit_seconds, OLD.digest, OLD.asked_by, OLD.asked_by_id, OLD.asked_at)"
)
TRIGGERS = (
    refuse(
        CORRECTION,
        operation="UPDATE",
        reason="a correction is decided once",
        when=f"OLD.state <> 'proposed' OR {ASKED} IS DISTINCT FROM {ASKED.replace('OLD.', 'NEW.')}",
    )
    + refuse(CORRECTION, operation="DELETE", reason="a correction is corrected by another one")
    + refuse(CORRECTION, operation="TRUNCATE", reason="corrections are kept for ever")
    + always(
        CORRECTION,
        f"{CORRECTION}_is_written",
        f"AFTER INSERT OR UPDATE ON {CORRECTION} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "WHEN (NEW.state = 'posted') EXECUTE FUNCTION metering_posted_is_written()",
    ).replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER")
    + refuse(
        RECHECK,
        operation="UPDATE",
        reason="a recheck ends once",
        when="OLD.state IN ('done', 'lapsed', 'failed')",
    )
    + refuse(RECHECK, operation="DELETE", reason="rechecks are kept for ever")
    + refuse(RECHECK, operation="TRUNCATE", reason="rechecks are kept for ever")
    + f"REVOKE DELETE, TRUNCATE ON {CORRECTION}, {RECHECK} FROM {RUNTIME_ROLE};\n"
)

# What billing may read: posted corrections only.
VIEW = f"""
CREATE VIEW metering_posted_correction AS
SELECT id, window_id, window_start, cluster_id, organization_id, project_id, cause, unit_seconds,
       record_count, decided_at AS posted_at
  FROM {CORRECTION} WHERE state = 'posted';
GRANT SELECT ON metering_posted_correction TO {RUNTIME_ROLE};
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0004_settle_once")]

    operations = [
        migrations.CreateModel(
            name="WindowRecheck",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
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
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
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
                ("asked_by", models.CharField(max_length=200)),
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
                ("asked_at", models.DateTimeField(blank=True, null=True)),
                ("evidence", models.JSONField(blank=True, db_default=[], default=list)),
                ("found", models.JSONField(blank=True, db_default={}, default=dict)),
                ("last_error", models.TextField(blank=True, db_default="", default="")),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-not_before", "-id"],
            },
        ),
        migrations.AddIndex(
            model_name="WindowRecheck",
            index=models.Index(
                condition=models.Q(("state__in", ["due", "checking"])),
                fields=["not_before"],
                name="window_recheck_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="WindowRecheck",
            constraint=models.UniqueConstraint(
                fields=("window", "reason", "key"), name="window_recheck_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="WindowRecheck",
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
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="corrections",
                        to="metering.meteringwindow",
                    ),
                ),
                ("window_start", models.DateTimeField()),
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
                ("asked_by", models.CharField(max_length=200)),
                ("asked_by_id", models.CharField(max_length=64)),
                ("asked_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["-asked_at", "-id"],
            },
        ),
        migrations.AddIndex(
            model_name="UsageCorrection",
            index=models.Index(fields=["state", "-window_start"], name="usage_correction_by_state"),
        ),
        migrations.AddIndex(
            model_name="UsageCorrection",
            index=models.Index(
                fields=["project", "-window_start"], name="usage_correction_by_project"
            ),
        ),
        migrations.AddConstraint(
            model_name="UsageCorrection",
            constraint=models.CheckConstraint(
                condition=models.Q(("record_count__gte", 1)), name="usage_correction_has_records"
            ),
        ),
        migrations.AddConstraint(
            model_name="UsageCorrection",
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
        migrations.RunSQL(COLUMN, NO_COLUMN),
        migrations.RunSQL(
            CHECK_FUNCTION, BEFORE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        ),
        migrations.RunSQL(POSTED_FUNCTION, "DROP FUNCTION metering_posted_is_written();"),
        migrations.RunSQL(
            TRIGGERS,
            drop_refusals(CORRECTION)
            + drop_refusals(RECHECK)
            + drop_triggers(CORRECTION, f"{CORRECTION}_is_written"),
        ),
        migrations.RunSQL(VIEW, "DROP VIEW metering_posted_correction;"),
    ]
