from importlib import import_module

from django.db import migrations

from tenants.migrations._ledger import always, drop_triggers

CAPACITY = "metering_capacityrecord"
CORRECTION = "metering_usagecorrection"
WINDOW = "metering_meteringwindow"
BEFORE = import_module("metering.migrations.0017_sealed_hours_stay").RULES

# Only the trigger on corrections runs as the owner of this table and inside another trigger, so no
# statement of a session changes capacity of a sealed hour, whatever its role.
KEEP = f"""
CREATE OR REPLACE FUNCTION metering_keep_sealed_capacity() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  window_ids bigint[];
  offender bigint;
BEGIN
  IF pg_trigger_depth() > 1 AND current_user = (
       SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
    RETURN NULL;
  END IF;
  IF TG_OP = 'INSERT' THEN
    window_ids := ARRAY(SELECT window_id FROM new_rows);
  ELSE
    window_ids := ARRAY(SELECT window_id FROM new_rows UNION SELECT window_id FROM old_rows);
  END IF;
  SELECT w.id INTO offender FROM {WINDOW} w
   WHERE w.id = ANY(window_ids) AND w.state = 'sealed' LIMIT 1;
  IF offender IS NOT NULL THEN
    RAISE EXCEPTION '% on capacity is refused: window % is sealed', TG_OP, offender
      USING ERRCODE = 'restrict_violation',
            HINT = 'Capacity of a sealed hour moves with a posted correction only.';
  END IF;
  RETURN NULL;
END $$;
"""

# What was held goes first, the rest was idle; use beyond both proves that there was more. A part of
# a claim is a part of what its node offers of the claim's class.
MOVE = f"""
CREATE FUNCTION metering_move_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE posted uuid[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    posted := ARRAY(SELECT id FROM new_rows WHERE state = 'posted');
  ELSE
    posted := ARRAY(SELECT n.id FROM new_rows n JOIN old_rows o ON o.id = n.id
                     WHERE n.state = 'posted' AND o.state <> 'posted');
  END IF;
  IF posted = '{{}}' THEN
    RETURN NULL;
  END IF;
  INSERT INTO {CAPACITY} AS k (window_id, window_start, cluster_id, node, resource,
    size, price_group, share_numerator, share_denominator, allocatable_units,
    capacity_unit_seconds, billed_unit_seconds, held_unit_seconds, idle_unit_seconds)
  SELECT m.window_id, m.window_start, m.cluster_id, m.node, m.resource, m.size, m.price_group,
         m.share_numerator, m.share_denominator, coalesce(r.allocatable_units, 0),
         after.billed + after.held + after.idle, after.billed, after.held, after.idle
    FROM (
      SELECT c.window_id, c.window_start, c.cluster_id, l.node,
             CASE WHEN starts_with(l.resource, 'claim/')
               THEN regexp_replace(l.resource, '^claim/(.*/)?([^#]*).*$', 'claim/\\2')
               ELSE l.resource END AS resource,
             min(l.size) AS size,
             min(regexp_replace(l.price_group, '/burst$', '')) AS price_group,
             min(l.share_numerator) AS share_numerator,
             min(l.share_denominator) AS share_denominator,
             sum(l.unit_seconds)::bigint AS delta,
             coalesce(sum(l.unit_seconds) FILTER (WHERE c.cause = 'released'), 0)::bigint
               AS released
        FROM {CORRECTION} c
       CROSS JOIN LATERAL jsonb_to_recordset(c.lines)
         AS l(node text, resource text, size text, price_group text, share_numerator integer,
              share_denominator integer, unit_seconds bigint)
       WHERE c.id = ANY(posted)
       GROUP BY 1, 2, 3, 4, 5) m
    LEFT JOIN {CAPACITY} r
      ON (r.window_id, r.node, r.resource) = (m.window_id, m.node, m.resource)
   CROSS JOIN LATERAL (
     SELECT coalesce(r.billed_unit_seconds, 0) AS billed,
            coalesce(r.held_unit_seconds, 0) AS held,
            coalesce(r.idle_unit_seconds, 0) AS idle,
            least(coalesce(r.held_unit_seconds, 0), m.released) AS released) before
   CROSS JOIN LATERAL (
     SELECT before.billed + m.delta AS billed, before.held - before.released AS held,
            greatest(before.idle - m.delta + before.released, least(before.idle, 0)) AS idle) after
  ON CONFLICT (window_id, node, resource) DO UPDATE
    SET capacity_unit_seconds = excluded.capacity_unit_seconds,
        billed_unit_seconds = excluded.billed_unit_seconds,
        held_unit_seconds = excluded.held_unit_seconds,
        idle_unit_seconds = excluded.idle_unit_seconds;
  RETURN NULL;
END $$;
"""
TRIGGERS = always(
    CORRECTION,
    f"{CORRECTION}_moves_insert",
    f"AFTER INSERT ON {CORRECTION} REFERENCING NEW TABLE AS new_rows "
    "FOR EACH STATEMENT EXECUTE FUNCTION metering_move_capacity()",
) + always(
    CORRECTION,
    f"{CORRECTION}_moves_update",
    f"AFTER UPDATE ON {CORRECTION} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows "
    "FOR EACH STATEMENT EXECUTE FUNCTION metering_move_capacity()",
)


def _first_function(rules: str) -> str:
    """Return the earlier body of `metering_keep_sealed_capacity`, for the way back."""
    body, end, _ = rules.partition("END $$;\n")
    return body.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") + end


class Migration(migrations.Migration):
    dependencies = [("metering", "0018_partitions_near_now")]

    operations = [
        migrations.RunSQL(KEEP, _first_function(BEFORE)),
        migrations.RunSQL(
            MOVE + TRIGGERS,
            drop_triggers(CORRECTION, f"{CORRECTION}_moves_insert", f"{CORRECTION}_moves_update")
            + "DROP FUNCTION metering_move_capacity();",
        ),
    ]
