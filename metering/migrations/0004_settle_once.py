from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE, drop_refusals, refuse

USAGE = "metering_usagerecord"
ALLOCATION = "metering_podallocation"

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
    " OLD.priority_class, OLD.source, OLD.units, OLD.node_labels, OLD.begin_at)"
)
SIZE = (
    "(OLD.size, OLD.price_group, OLD.sharing_mode, OLD.share_numerator, OLD.share_denominator,"
    " OLD.catalogue_version)"
)


def _changes(columns):
    return f"{columns} IS DISTINCT FROM {columns.replace('OLD.', 'NEW.')}"


# A size is settled once: from "" to what the first catalogue that knows the device says.
SETTLED = f"({_changes(BOUND)}) OR (OLD.size <> '' AND {_changes(SIZE)})"
BEFORE = (
    "(OLD.cluster_id, OLD.pod_uid, OLD.resource, OLD.namespace, OLD.pod_name, OLD.node, OLD.owner,"
    " OLD.units, OLD.size, OLD.price_group, OLD.sharing_mode, OLD.share_numerator,"
    " OLD.share_denominator, OLD.catalogue_version, OLD.begin_at)"
)
REASON = "what a pod held is settled at bind"


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
            + refuse(ALLOCATION, operation="TRUNCATE", reason="allocations are never truncated"),
            drop_refusals(ALLOCATION)
            + refuse(ALLOCATION, operation="UPDATE", reason=REASON, when=_changes(BEFORE))
            + refuse(ALLOCATION, operation="TRUNCATE", reason="allocations are never truncated"),
        ),
    ]
