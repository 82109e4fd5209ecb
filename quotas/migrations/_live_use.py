"""SQL of live use: what the watch has told of pods since, and counters beside their truth."""

from quotas.migrations._admission import BY_INDEX, PINNED, holds, only_runtime
from quotas.migrations._wanted import CLASSES

_SIGNED = """
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND NOT x.is_burst) AS held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND NOT x.is_burst)
             AS reserved,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND x.is_burst) AS burst_held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND x.is_burst)
             AS burst_reserved"""
_ALIKE = "organization_id, project_id, username, cluster_id, size, model_groups"
_KEPT = f"{_ALIKE}, units, is_burst, state"
_KEPT_OF = "{0}." + _KEPT.replace(", ", ", {0}.")

# One turn: the keys of a few organizations, looked at again under their locks. What belongs to an
# organization that comes up only then has its turn at the next tick. Who waits for a pod waits
# longer than this one does, and what a crash takes back is found again, with what it told.
SWEEP = f"""
CREATE FUNCTION quotas_sweep(moment timestamptz, burst_classes text[], keys jsonb) RETURNS jsonb
LANGUAGE plpgsql {BY_INDEX} SET lock_timeout = '500ms' AS $$
DECLARE
  kept text := set_config('synchronous_commit', 'off', true);
  theirs uuid[];
  swept jsonb;
BEGIN
  SELECT array_agg(DISTINCT o.id ORDER BY o.id) INTO theirs
    FROM jsonb_to_recordset(keys) AS k(organization_id uuid, organization_before uuid)
   CROSS JOIN LATERAL (VALUES (k.organization_id), (k.organization_before)) o(id)
   WHERE o.id IS NOT NULL;
  -- A connection's first look takes longer to plan than to make: so nobody waits for that.
  PERFORM FROM quotas_wanted_of(moment, burst_classes, '[]');
  PERFORM pg_advisory_xact_lock(quotas_lock_key(o.id)) FROM unnest(theirs) o(id);
  PERFORM quotas_open_counters(o.id) FROM unnest(theirs) o(id);

  WITH wanted AS MATERIALIZED (
    SELECT * FROM quotas_wanted_of(moment, burst_classes, keys) w
     WHERE (w.organization_id IS NULL OR w.organization_id = ANY (theirs))
       AND (w.organization_before IS NULL OR w.organization_before = ANY (theirs))),
  before AS MATERIALIZED (
    SELECT r.* FROM quotas_reservation r JOIN wanted w ON w.reservation_id = r.id
     WHERE r.state <> 'released'),
  released AS (
    UPDATE quotas_reservation r
       SET state = 'released', released_at = moment, release_reason = w.release_reason
      FROM wanted w WHERE w.reservation_id = r.id AND w.state = 'released'
    RETURNING r.id, w.release_reason),
  changed AS (
    UPDATE quotas_reservation r
       SET organization_id = w.organization_id, project_id = w.project_id,
           username = w.username, size = w.size, units = w.units, model_groups = w.model_groups,
           is_burst = w.is_burst, state = w.state, origin = w.origin, released_at = NULL,
           release_reason = '',
           expires_at = CASE WHEN w.is_seen THEN NULL ELSE r.expires_at END,
           held_at = CASE WHEN w.state = 'held' THEN coalesce(r.held_at, moment) END
      FROM wanted w WHERE w.reservation_id = r.id AND w.state <> 'released'
    RETURNING r.*),
  added AS (
    INSERT INTO quotas_reservation (
      cluster_id, pod_uid, resource, namespace, pod_name, controller, organization_id, project_id,
      owner, username, size, units, model_groups, is_burst, state, origin, admitted_at, held_at,
      released_at, release_reason)
    SELECT w.cluster_id, w.pod_uid, w.resource, w.namespace, w.pod_name, w.controller,
           w.organization_id, w.project_id, w.owner, w.username, w.size, w.units, w.model_groups,
           w.is_burst, w.state, w.origin, moment,
           CASE WHEN w.state = 'held' THEN moment END,
           CASE WHEN w.state = 'released' THEN moment END, w.release_reason
      FROM wanted w WHERE w.reservation_id IS NULL
     ORDER BY w.cluster_id, w.pod_uid, w.resource
    ON CONFLICT (cluster_id, pod_uid, resource) DO NOTHING
    RETURNING *),
  signed AS (
    SELECT -1 AS sign, {_KEPT_OF.format("b")} FROM before b
    UNION ALL SELECT 1, {_KEPT_OF.format("c")} FROM changed c
    UNION ALL SELECT 1, {_KEPT_OF.format("d")} FROM added d WHERE d.state <> 'released'),
  added_up AS (
    SELECT {_ALIKE},{_SIGNED}
      FROM signed x
     GROUP BY {_ALIKE}),
  delta AS (
    SELECT l.id, sum(x.held) AS held, sum(x.reserved) AS reserved,
           sum(x.burst_held) AS burst_held, sum(x.burst_reserved) AS burst_reserved
      FROM added_up x
      JOIN quotas_quotalimit l ON l.organization_id = x.organization_id AND l.size = x.size
      LEFT JOIN auth_user l_user ON l_user.id = l.user_id
     WHERE {holds("l", of="x")}
     GROUP BY l.id),
  counted AS (
    UPDATE quotas_quotacounter c
       SET held_units = greatest(0, c.held_units + coalesce(d.held, 0)),
           reserved_units = greatest(0, c.reserved_units + coalesce(d.reserved, 0)),
           burst_held_units = greatest(0, c.burst_held_units + coalesce(d.burst_held, 0)),
           burst_reserved_units
             = greatest(0, c.burst_reserved_units + coalesce(d.burst_reserved, 0))
      FROM delta d WHERE c.limit_id = d.id)
  SELECT jsonb_build_object(
           'released', (SELECT count(*) FROM released),
           'changed', (SELECT count(*) FROM changed),
           'found', (SELECT count(*) FROM added),
           'bypasses', (SELECT coalesce(jsonb_agg(f), '[]') FROM (
              SELECT k.slug AS cluster, d.namespace, d.size, count(*) AS pods,
                     sum(d.units) AS units
                FROM wanted d JOIN tenants_cluster k ON k.id = d.cluster_id
               WHERE d.is_bypass AND k.admission_mode <> 'off'
               GROUP BY k.slug, d.namespace, d.size
               ORDER BY k.slug, d.namespace, d.size) f))
    INTO swept;
  RETURN swept;
END $$;
{only_runtime(f"quotas_sweep({CLASSES}, jsonb)")}
"""

# Both sides come from one snapshot, so nobody has to wait for the comparison.
DRIFT = """
CREATE VIEW quotas_drift AS
SELECT n.*,
       abs(n.held_units - coalesce(c.held_units, 0))
       + abs(n.reserved_units - coalesce(c.reserved_units, 0))
       + abs(n.burst_held_units - coalesce(c.burst_held_units, 0))
       + abs(n.burst_reserved_units - coalesce(c.burst_reserved_units, 0)) AS drift_units
  FROM quotas_counted n
  LEFT JOIN quotas_quotacounter c ON c.limit_id = n.limit_id;
"""

# Only an organization that is off is locked. Clean counters are marked as they come free.
REPAIR = f"""
CREATE FUNCTION quotas_repair(moment timestamptz) RETURNS jsonb LANGUAGE plpgsql {PINNED} AS $$
DECLARE
  theirs uuid[];
  repaired jsonb := '[]';
BEGIN
  SELECT array_agg(DISTINCT d.organization_id ORDER BY d.organization_id) INTO theirs
    FROM quotas_drift d
    LEFT JOIN quotas_quotacounter c ON c.limit_id = d.limit_id
   WHERE d.drift_units <> 0 OR c.limit_id IS NULL;
  IF theirs IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(quotas_lock_key(o.id)) FROM unnest(theirs) o(id);
    PERFORM quotas_open_counters(o.id) FROM unnest(theirs) o(id);
    WITH drift AS MATERIALIZED (
      SELECT * FROM quotas_drift WHERE organization_id = ANY (theirs) AND drift_units <> 0),
    counted AS (
      UPDATE quotas_quotacounter c
         SET held_units = d.held_units, reserved_units = d.reserved_units,
             burst_held_units = d.burst_held_units,
             burst_reserved_units = d.burst_reserved_units,
             drift_units = d.drift_units, checked_at = moment
        FROM drift d WHERE c.limit_id = d.limit_id
      RETURNING c.limit_id, d.organization_id, c.drift_units)
    SELECT coalesce(jsonb_agg(jsonb_build_object(
             'limit_id', limit_id, 'organization_id', organization_id,
             'drift_units', drift_units) ORDER BY organization_id, limit_id), '[]')
      INTO repaired FROM counted;
  END IF;
  UPDATE quotas_quotacounter c SET checked_at = moment, drift_units = 0
   WHERE c.limit_id IN (
     SELECT limit_id FROM quotas_quotacounter
      WHERE checked_at IS DISTINCT FROM moment FOR NO KEY UPDATE SKIP LOCKED);
  RETURN repaired;
END $$;
{only_runtime("quotas_repair(timestamptz)")}
"""

# What a month has used, told by metering, set on the counters of limits with an allowance. Counters
# are locked like admission does, so that neither waits for the other in a circle.
COUNT_MONTHS = f"""
CREATE FUNCTION quotas_count_months(month_begin date, used jsonb) RETURNS integer
LANGUAGE plpgsql {PINNED} AS $$
DECLARE written integer;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(quotas_lock_key(o.organization_id))
     FROM (SELECT DISTINCT organization_id FROM quotas_quotalimit
            WHERE monthly_unit_hours IS NOT NULL ORDER BY organization_id) o;
  PERFORM FROM quotas_quotacounter c JOIN quotas_quotalimit l ON l.id = c.limit_id
    WHERE l.monthly_unit_hours IS NOT NULL
    ORDER BY l.organization_id,
             array_position('{{organization,project,user}}'::text[], l.scope::text),
             l.cluster_id IS NOT NULL, l.id
      FOR NO KEY UPDATE OF c;
  UPDATE quotas_quotacounter c
     SET month = month_begin, month_unit_seconds = m.unit_seconds
    FROM (SELECT l.id, coalesce(sum(x.unit_seconds), 0) AS unit_seconds
            FROM quotas_quotalimit l
            LEFT JOIN auth_user l_user ON l_user.id = l.user_id
            LEFT JOIN jsonb_to_recordset(used) AS x(
              organization_id uuid, project_id uuid, username text, cluster_id uuid, size text,
              model_groups text[], unit_seconds bigint)
              ON {holds("l", of="x")}
           WHERE l.monthly_unit_hours IS NOT NULL
           GROUP BY l.id) m
   WHERE c.limit_id = m.id;
  GET DIAGNOSTICS written = ROW_COUNT;
  RETURN written;
END $$;
{only_runtime("quotas_count_months(date, jsonb)")}
"""
