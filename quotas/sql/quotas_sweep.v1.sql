-- One batch: the keys of a few organizations, read again under their locks. Keys of an
-- organization that appears only now wait for the next tick. Waiting pods wait for one batch at
-- most, and a crash loses nothing: the next sweep finds the same changes.
CREATE OR REPLACE FUNCTION quotas_sweep(moment timestamptz, burst_classes text[],
  keys jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan SET lock_timeout = '500ms' AS $$
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
    SELECT -1 AS sign, b.organization_id, b.project_id, b.username, b.cluster_id, b.size,
      b.model_groups, b.units, b.is_burst, b.state FROM before b
    UNION ALL SELECT 1, c.organization_id, c.project_id, c.username, c.cluster_id, c.size,
      c.model_groups, c.units, c.is_burst, c.state FROM changed c
    UNION ALL SELECT 1, d.organization_id, d.project_id, d.username, d.cluster_id, d.size,
      d.model_groups, d.units, d.is_burst, d.state FROM added d WHERE d.state <> 'released'),
  added_up AS (
    SELECT organization_id, project_id, username, cluster_id, size, model_groups,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND NOT x.is_burst) AS held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND NOT x.is_burst)
             AS reserved,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'held' AND x.is_burst) AS burst_held,
           sum(x.sign * x.units) FILTER (WHERE x.state = 'reserved' AND x.is_burst)
             AS burst_reserved
      FROM signed x
     GROUP BY organization_id, project_id, username, cluster_id, size, model_groups),
  delta AS (
    SELECT l.id, sum(x.held) AS held, sum(x.reserved) AS reserved,
           sum(x.burst_held) AS burst_held, sum(x.burst_reserved) AS burst_reserved
      FROM added_up x
      JOIN quotas_quotalimit l ON l.organization_id = x.organization_id AND l.size = x.size
      LEFT JOIN auth_user l_user ON l_user.id = l.user_id
     WHERE l.organization_id = x.organization_id AND l.size = x.size AND (l.project_id IS NULL
       OR l.project_id = x.project_id) AND (l.user_id IS NULL OR l_user.username = x.username)
       AND (l.cluster_id IS NULL OR l.cluster_id = x.cluster_id) AND (l.model_group = ''
       OR x.model_groups = '{}' OR l.model_group = ANY (x.model_groups))
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
REVOKE EXECUTE ON FUNCTION quotas_sweep(timestamptz, text[], jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_sweep(timestamptz, text[], jsonb) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_sweep;
