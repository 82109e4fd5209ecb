"""SQL of live use: what the watch has told of pods since, and counters beside their truth."""

from quotas.migrations._admission import (
    PINNED,
    claimed_in_vain,
    holds,
    only_runtime,
    unseen_too_long,
)

CLASSES = "timestamptz, text[]"

# Every reservation as it should stand now, and every open allocation that has none: one row for
# what has to change. Reservations of device claims are handed over to the claim's own row, which
# counts once for all pods that share it.
WANTED = f"""
CREATE FUNCTION quotas_wanted(moment timestamptz, burst_classes text[])
RETURNS TABLE (
  reservation_id bigint, cluster_id uuid, pod_uid text, resource text, namespace text,
  pod_name text, controller text, organization_id uuid, project_id uuid, owner text, username text,
  size text, units integer, model_groups varchar[], is_burst boolean, state text,
  release_reason text, origin text, is_seen boolean, is_bypass boolean, organization_before uuid)
LANGUAGE sql STABLE {PINNED} AS $$
WITH keys AS (
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM quotas_reservation r WHERE r.state <> 'released'
  UNION ALL
  SELECT a.cluster_id, a.pod_uid, a.resource
    FROM metering_podallocation a
    LEFT JOIN quotas_reservation r USING (cluster_id, pod_uid, resource)
   WHERE a.end_at IS NULL AND (r.id IS NULL OR r.state = 'released')
  UNION ALL
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM metering_queuedpod q
    JOIN quotas_reservation r USING (cluster_id, pod_uid)
   WHERE q.bound_at IS NULL AND q.gone_at IS NULL
     AND r.state = 'released' AND r.release_reason IN ('expired', 'unbound')
     AND NOT EXISTS (SELECT FROM metering_podallocation a
                      WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid
                        AND a.resource = r.resource)
  UNION ALL
  SELECT DISTINCT r.cluster_id, r.pod_uid, r.resource
    FROM metering_queuedpod q
   CROSS JOIN LATERAL jsonb_object_keys(q.requests) c(name)
    JOIN quotas_reservation r ON r.cluster_id = q.cluster_id
     AND r.namespace = q.namespace AND r.pod_name = substr(c.name, 7)
   WHERE q.bound_at IS NULL AND c.name LIKE 'claim/%'
     AND r.state = 'released' AND r.release_reason IN ('expired', 'unbound')
     AND {claimed_in_vain("r", pod="q")}),
facts AS (
  SELECT r.id, k.cluster_id, k.pod_uid, k.resource,
         coalesce(r.namespace, a.namespace) AS namespace,
         coalesce(r.pod_name, a.pod_name) AS pod_name,
         coalesce(r.controller, a.controller) AS controller,
         p.organization_id, p.id AS project_id,
         coalesce(r.owner, h.owner, '') AS owner,
         coalesce(nullif(a.owner, ''), nullif(q.owner, ''), nullif(r.owner, ''),
                  nullif(h.owner, ''), u.username, '') AS username,
         coalesce(nullif(a.size, ''), r.size, '') AS size,
         coalesce(a.units, r.units) AS units,
         CASE WHEN coalesce(a.price_group, '') = '' THEN coalesce(r.model_groups, '{{}}')
              ELSE ARRAY[split_part(a.price_group, '/', 1)]::varchar[] END AS model_groups,
         CASE WHEN coalesce(a.priority_class, '') <> '' THEN a.priority_class = ANY (burst_classes)
              ELSE coalesce(r.is_burst, h.is_burst, false) END AS is_burst,
         CASE WHEN k.resource LIKE 'claim/%' AND EXISTS (
                SELECT FROM metering_claimconsumer m
                  JOIN metering_podallocation o
                    ON o.cluster_id = m.cluster_id AND o.pod_uid = m.claim_uid
                   AND o.resource = k.resource
                 WHERE m.cluster_id = k.cluster_id AND m.pod_uid = k.pod_uid) THEN 'handed_over'
              WHEN a.end_at IS NOT NULL THEN 'ended'
              WHEN a.id IS NULL AND q.gone_at IS NOT NULL THEN 'gone'
              WHEN a.id IS NULL AND q.id IS NULL AND {unseen_too_long("r")} THEN 'expired'
              WHEN p.id IS NULL THEN 'unbound'
              ELSE '' END AS over,
         CASE WHEN a.id IS NULL THEN 'reserved' ELSE 'held' END AS alive,
         CASE WHEN r.state = 'released' AND r.release_reason = 'expired' THEN 'found'
              ELSE coalesce(r.origin, CASE WHEN h.is_admitted THEN 'admission' ELSE 'found' END)
         END AS origin,
         a.id IS NOT NULL OR q.id IS NOT NULL AS is_seen,
         r.organization_id AS organization_before, r.state AS state_before,
         r.release_reason AS reason_before, r.expires_at,
         (r.organization_id, r.project_id, r.username, r.size, r.units, r.model_groups,
          r.is_burst) AS before
    FROM keys k
    LEFT JOIN quotas_reservation r USING (cluster_id, pod_uid, resource)
    LEFT JOIN metering_podallocation a USING (cluster_id, pod_uid, resource)
    LEFT JOIN metering_queuedpod q USING (cluster_id, pod_uid)
    LEFT JOIN tenants_namespacebinding b
      ON b.cluster_id = k.cluster_id AND b.namespace = coalesce(r.namespace, a.namespace)
     AND b.valid @> moment
    LEFT JOIN tenants_project p ON p.id = b.project_id
    LEFT JOIN auth_user u ON u.id = b.default_owner_id
    LEFT JOIN LATERAL (
      SELECT bool_or(w.is_burst) AS is_burst, max(w.owner) AS owner, true AS is_admitted
        FROM metering_claimconsumer m
        JOIN quotas_reservation w
          ON w.cluster_id = m.cluster_id AND w.pod_uid = m.pod_uid AND w.resource = k.resource
       WHERE m.cluster_id = k.cluster_id AND m.claim_uid = k.pod_uid
      HAVING count(*) > 0) h ON r.id IS NULL AND k.resource LIKE 'claim/%')
SELECT id, cluster_id, pod_uid, resource, namespace, pod_name, controller, organization_id,
       project_id, owner, username, size, units, model_groups, is_burst,
       CASE over WHEN '' THEN alive ELSE 'released' END, over, origin, is_seen,
       over = '' AND origin = 'found' AND coalesce(state_before, 'released') = 'released'
         AND coalesce(reason_before, 'expired') = 'expired', organization_before
  FROM facts f
 WHERE CASE WHEN id IS NULL THEN over = '' AND size <> ''
            WHEN over <> '' THEN state_before <> 'released'
            ELSE state_before <> alive OR (is_seen AND expires_at IS NOT NULL)
              OR before IS DISTINCT FROM (f.organization_id, f.project_id, f.username::varchar,
                                          f.size::varchar, f.units, f.model_groups, f.is_burst)
       END
$$;
{only_runtime(f"quotas_wanted({CLASSES})")}
"""

_SIGNED = """
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND NOT x.is_burst) AS held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND NOT x.is_burst)
             AS reserved,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND x.is_burst) AS burst_held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND x.is_burst)
             AS burst_reserved"""
_KEPT = (
    "organization_id, project_id, username, cluster_id, size, model_groups, units, is_burst, state"
)
_KEPT_OF = "{0}." + _KEPT.replace(", ", ", {0}.")

# A first look finds out whose lock is needed, a second one under the locks decides, by their ids.
# An organization that comes up only then has its turn at the next tick.
SWEEP = f"""
CREATE FUNCTION quotas_sweep(moment timestamptz, burst_classes text[]) RETURNS jsonb
LANGUAGE plpgsql {PINNED} AS $$
DECLARE
  theirs uuid[];
  swept jsonb;
BEGIN
  SELECT array_agg(DISTINCT o.id ORDER BY o.id) INTO theirs
    FROM quotas_wanted(moment, burst_classes) w
   CROSS JOIN LATERAL (VALUES (w.organization_id), (w.organization_before)) o(id)
   WHERE o.id IS NOT NULL;
  IF theirs IS NULL THEN
    RETURN '{{}}';
  END IF;
  PERFORM pg_advisory_xact_lock(quotas_lock_key(o.id)) FROM unnest(theirs) o(id);
  PERFORM quotas_open_counters(o.id) FROM unnest(theirs) o(id);

  WITH wanted AS MATERIALIZED (
    SELECT * FROM quotas_wanted(moment, burst_classes) w
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
      release_reason)
    SELECT w.cluster_id, w.pod_uid, w.resource, w.namespace, w.pod_name, w.controller,
           w.organization_id, w.project_id, w.owner, w.username, w.size, w.units, w.model_groups,
           w.is_burst, w.state, w.origin, moment, moment, ''
      FROM wanted w WHERE w.reservation_id IS NULL
     ORDER BY w.cluster_id, w.pod_uid, w.resource
    ON CONFLICT (cluster_id, pod_uid, resource) DO NOTHING
    RETURNING *),
  signed AS (
    SELECT -1 AS sign, {_KEPT_OF.format("b")} FROM before b
    UNION ALL SELECT 1, {_KEPT_OF.format("c")} FROM changed c
    UNION ALL SELECT 1, {_KEPT_OF.format("d")} FROM added d),
  delta AS (
    SELECT l.id,{_SIGNED}
      FROM signed x
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
{only_runtime(f"quotas_sweep({CLASSES})")}
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
