"""Hours sealed before have the state of their device figures, and what their pods used, apart."""

from django.db import migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

# Sealed with their device rows, and without a digest of them.
COPY_STATES = """
INSERT INTO metering_devicewindow (window_id, window_start, cluster_id, state, fence, attempt,
  failures, lease_owner, not_before, missing_figures, evidence, row_count, row_digest, last_error,
  sealed_at)
SELECT w.id, w.start_at, w.cluster_id, 'sealed', 0, 0, 0, '', w.not_before,
       COALESCE(w.reconciliation -> 'missing_figures', '[]'), '[]',
       (SELECT count(*) FROM metering_deviceusage d
         WHERE d.window_id = w.id AND d.window_start = w.start_at), '', '', w.sealed_at
  FROM metering_meteringwindow w
 WHERE w.state = 'sealed' AND w.start_at >= %(begin)s AND w.start_at < %(begin)s + interval '1 day'
   AND w.id = ANY (%(windows)s)
ON CONFLICT DO NOTHING
"""
COPY_ACTIVITY = """
INSERT INTO metering_usageactivity (window_id, window_start, pod_uid, resource, busy_ratio,
  busy_coverage, energy_millijoules)
SELECT DISTINCT ON (u.window_id, u.pod_uid, u.resource) u.window_id, u.window_start, u.pod_uid,
       u.resource, u.busy_ratio, u.busy_coverage, u.energy_millijoules
  FROM metering_usagerecord u
 WHERE u.window_id = ANY (%(windows)s)
   AND u.window_start >= %(begin)s AND u.window_start < %(begin)s + interval '1 day'
   AND (u.busy_ratio IS NOT NULL OR u.busy_coverage IS NOT NULL
        OR u.energy_millijoules IS NOT NULL)
 ORDER BY u.window_id, u.pod_uid, u.resource, u.revision
"""
MISSING = """
SELECT w.id FROM metering_meteringwindow w
 WHERE w.state = 'sealed' AND w.start_at >= %(begin)s AND w.start_at < %(begin)s + interval '1 day'
   AND NOT EXISTS (SELECT FROM metering_devicewindow d WHERE d.window_id = w.id)
   FOR KEY SHARE
"""
DAYS = """
SELECT DISTINCT date_trunc('day', start_at, 'UTC') FROM metering_meteringwindow
 WHERE state = 'sealed' ORDER BY 1
"""


def copy_days(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:  # noqa: ARG001 - Django's signature.
    """Copy one day in each transaction; a migration that was interrupted continues.

    Activity comes first: once a window's device figures are sealed, it refuses new rows.
    """
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        cursor.execute(DAYS)
        days = [day for (day,) in cursor.fetchall()]
        for begin in days:
            with transaction.atomic(using=connection.alias):
                cursor.execute(MISSING, {"begin": begin})
                windows = [window for (window,) in cursor.fetchall()]
                cursor.execute(COPY_ACTIVITY, {"begin": begin, "windows": windows})
                cursor.execute(COPY_STATES, {"begin": begin, "windows": windows})


class Migration(migrations.Migration):
    # Hours are metered meanwhile: no table is locked while all of history is read.
    atomic = False
    dependencies = [("metering", "0015_device_figures_apart")]

    operations = [migrations.RunPython(copy_days, migrations.RunPython.noop)]
