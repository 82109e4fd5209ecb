-- The same for some keys only, by index. PL/pgSQL keeps the plan, which takes longer to make than
-- to run.
CREATE OR REPLACE FUNCTION quotas_wanted_of(moment timestamptz, burst_classes text[], keys jsonb)
RETURNS TABLE (
  reservation_id bigint, cluster_id uuid, pod_uid text, resource text, namespace text,
  pod_name text, controller text, organization_id uuid, project_id uuid, owner text, username text,
  size text, units integer, model_groups varchar[], is_burst boolean, state text,
  release_reason text, origin text, is_seen boolean, is_bypass boolean, organization_before uuid)
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY 
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(keys) AS k(cluster_id uuid, pod_uid text, resource text)),
keys AS (
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM quotas_reservation r JOIN given g
      ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
      WHERE r.state <> 'released'
  UNION ALL
  SELECT a.cluster_id, a.pod_uid, a.resource
    FROM metering_podallocation a JOIN given g
      ON (g.cluster_id, g.pod_uid, g.resource) = (a.cluster_id, a.pod_uid, a.resource)
    LEFT JOIN quotas_reservation r
      ON r.cluster_id = a.cluster_id AND r.pod_uid = a.pod_uid AND r.resource = a.resource
   WHERE a.end_at IS NULL AND (r.id IS NULL OR r.state = 'released')
  UNION ALL
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM metering_queuedpod q
    JOIN quotas_reservation r ON r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid
      JOIN given g ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
   WHERE q.bound_at IS NULL AND q.gone_at IS NULL
     AND r.state = 'released' AND r.release_reason IN ('expired', 'replaced', 'absent', 'unbound')
     AND NOT EXISTS (SELECT FROM metering_podallocation a
                      WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid
                        AND a.resource = r.resource)
  UNION ALL
  SELECT DISTINCT r.cluster_id, r.pod_uid, r.resource
    FROM metering_queuedpod q
   CROSS JOIN LATERAL jsonb_object_keys(q.requests) c(name)
    JOIN quotas_reservation r ON r.cluster_id = q.cluster_id
     AND r.namespace = q.namespace AND r.pod_name = substr(c.name, 7) JOIN given g
       ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
   WHERE q.bound_at IS NULL AND c.name LIKE 'claim/%'
     AND r.state = 'released' AND r.release_reason IN ('expired', 'replaced', 'absent', 'unbound')
     AND r.resource LIKE 'claim/%' AND q.gone_at IS NULL AND q.cluster_id = r.cluster_id
       AND q.namespace = r.namespace AND q.requests ? ('claim/' || r.pod_name)
       AND NOT EXISTS (SELECT FROM metering_podallocation x WHERE x.cluster_id = r.cluster_id
       AND x.pod_uid = r.pod_uid)),
facts AS MATERIALIZED (
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
         CASE WHEN coalesce(a.price_group, '') = '' THEN coalesce(r.model_groups, '{}')
              ELSE ARRAY[split_part(a.price_group, '/', 1)]::varchar[] END AS model_groups,
         CASE WHEN coalesce(a.priority_class, '') <> '' THEN a.priority_class = ANY (burst_classes)
              ELSE coalesce(r.is_burst, h.is_burst, false) END AS is_burst,
         CASE WHEN k.resource LIKE 'claim/%' AND EXISTS (
                SELECT FROM metering_claimconsumer m
                  JOIN metering_podallocation o
                    ON o.cluster_id = m.cluster_id AND o.pod_uid = m.claim_uid
                   AND o.resource = k.resource
                 WHERE m.cluster_id = k.cluster_id AND m.pod_uid = k.pod_uid
                   AND (o.end_at IS NOT NULL OR 
                   EXISTS (
                     SELECT FROM quotas_reservation c
                      WHERE c.cluster_id = o.cluster_id AND c.pod_uid = o.pod_uid
                        AND c.resource = o.resource AND c.state <> 'released')
                   OR EXISTS (
                     SELECT FROM given g
                      WHERE g.cluster_id = o.cluster_id AND g.pod_uid = o.pod_uid
                        AND g.resource = o.resource) AND (
                   o.size <> '' OR EXISTS (
                     SELECT FROM quotas_reservation c
                      WHERE c.cluster_id = o.cluster_id AND c.pod_uid = o.pod_uid
                        AND c.resource = o.resource AND c.size <> ''))))
                THEN 'handed_over'
              WHEN a.end_at IS NOT NULL THEN 'ended'
              WHEN a.id IS NULL AND q.gone_at IS NOT NULL THEN 'gone'
              WHEN a.id IS NULL AND q.id IS NULL AND r.state = 'reserved'
                AND r.expires_at <= moment AND NOT EXISTS (SELECT FROM tenants_cluster k LEFT
                JOIN metering_clusterwatch w ON w.cluster_id = k.id WHERE k.id = r.cluster_id
                AND k.is_watched AND (w.healthy_at IS NULL OR w.healthy_at < r.expires_at))
                AND NOT EXISTS (SELECT FROM metering_queuedpod u
                WHERE r.resource LIKE 'claim/%' AND u.gone_at IS NULL
                AND u.cluster_id = r.cluster_id AND u.namespace = r.namespace
                AND u.requests ? ('claim/' || r.pod_name)
                AND NOT EXISTS (SELECT FROM metering_podallocation x
                WHERE x.cluster_id = r.cluster_id AND x.pod_uid = r.pod_uid)) THEN 'expired'
              WHEN p.id IS NULL THEN 'unbound'
              WHEN coalesce(nullif(a.size, ''), r.size, '') = '' THEN 'unsized'
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
SELECT f.id, f.cluster_id, f.pod_uid::text, f.resource::text, f.namespace::text, f.pod_name::text,
       f.controller::text, f.organization_id, f.project_id, f.owner::text, f.username::text,
       f.size::text, f.units, f.model_groups, f.is_burst,
       CASE f.over WHEN '' THEN f.alive ELSE 'released' END, f.over, f.origin::text, f.is_seen,
       f.over IN ('', 'unsized') AND f.origin = 'found'
         AND coalesce(f.state_before, 'released') = 'released'
         AND coalesce(f.reason_before, 'expired') = 'expired', f.organization_before
  FROM facts f
 WHERE CASE WHEN f.id IS NULL THEN f.over IN ('', 'unsized')
            WHEN f.over <> '' THEN f.state_before <> 'released'
            ELSE f.state_before <> f.alive OR (f.is_seen AND f.expires_at IS NOT NULL)
              OR f.before IS DISTINCT FROM (
                   f.organization_id, f.project_id, f.username::varchar, f.size::varchar, f.units,
                   f.model_groups, f.is_burst)
       END;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_wanted_of(timestamptz, text[], jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_wanted_of(timestamptz, text[], jsonb) TO gpu_ledger_runtime;
-- reverse
-- The same for some keys only, by index. PL/pgSQL keeps the plan, which takes longer to make than
-- to run.
CREATE OR REPLACE FUNCTION quotas_wanted_of(moment timestamptz, burst_classes text[], keys jsonb)
RETURNS TABLE (
  reservation_id bigint, cluster_id uuid, pod_uid text, resource text, namespace text,
  pod_name text, controller text, organization_id uuid, project_id uuid, owner text, username text,
  size text, units integer, model_groups varchar[], is_burst boolean, state text,
  release_reason text, origin text, is_seen boolean, is_bypass boolean, organization_before uuid)
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY 
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(keys) AS k(cluster_id uuid, pod_uid text, resource text)),
keys AS (
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM quotas_reservation r JOIN given g
      ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
      WHERE r.state <> 'released'
  UNION ALL
  SELECT a.cluster_id, a.pod_uid, a.resource
    FROM metering_podallocation a JOIN given g
      ON (g.cluster_id, g.pod_uid, g.resource) = (a.cluster_id, a.pod_uid, a.resource)
    LEFT JOIN quotas_reservation r
      ON r.cluster_id = a.cluster_id AND r.pod_uid = a.pod_uid AND r.resource = a.resource
   WHERE a.end_at IS NULL AND (r.id IS NULL OR r.state = 'released')
  UNION ALL
  SELECT r.cluster_id, r.pod_uid, r.resource
    FROM metering_queuedpod q
    JOIN quotas_reservation r ON r.cluster_id = q.cluster_id AND r.pod_uid = q.pod_uid
      JOIN given g ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
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
     AND r.namespace = q.namespace AND r.pod_name = substr(c.name, 7) JOIN given g
       ON (g.cluster_id, g.pod_uid, g.resource) = (r.cluster_id, r.pod_uid, r.resource)
   WHERE q.bound_at IS NULL AND c.name LIKE 'claim/%'
     AND r.state = 'released' AND r.release_reason IN ('expired', 'unbound')
     AND r.resource LIKE 'claim/%' AND q.gone_at IS NULL AND q.cluster_id = r.cluster_id
       AND q.namespace = r.namespace AND q.requests ? ('claim/' || r.pod_name)
       AND NOT EXISTS (SELECT FROM metering_podallocation x WHERE x.cluster_id = r.cluster_id
       AND x.pod_uid = r.pod_uid)),
facts AS MATERIALIZED (
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
         CASE WHEN coalesce(a.price_group, '') = '' THEN coalesce(r.model_groups, '{}')
              ELSE ARRAY[split_part(a.price_group, '/', 1)]::varchar[] END AS model_groups,
         CASE WHEN coalesce(a.priority_class, '') <> '' THEN a.priority_class = ANY (burst_classes)
              ELSE coalesce(r.is_burst, h.is_burst, false) END AS is_burst,
         CASE WHEN k.resource LIKE 'claim/%' AND EXISTS (
                SELECT FROM metering_claimconsumer m
                  JOIN metering_podallocation o
                    ON o.cluster_id = m.cluster_id AND o.pod_uid = m.claim_uid
                   AND o.resource = k.resource
                 WHERE m.cluster_id = k.cluster_id AND m.pod_uid = k.pod_uid
                   AND (o.end_at IS NOT NULL OR 
                   EXISTS (
                     SELECT FROM quotas_reservation c
                      WHERE c.cluster_id = o.cluster_id AND c.pod_uid = o.pod_uid
                        AND c.resource = o.resource AND c.state <> 'released')
                   OR EXISTS (
                     SELECT FROM given g
                      WHERE g.cluster_id = o.cluster_id AND g.pod_uid = o.pod_uid
                        AND g.resource = o.resource) AND (
                   o.size <> '' OR EXISTS (
                     SELECT FROM quotas_reservation c
                      WHERE c.cluster_id = o.cluster_id AND c.pod_uid = o.pod_uid
                        AND c.resource = o.resource AND c.size <> ''))))
                THEN 'handed_over'
              WHEN a.end_at IS NOT NULL THEN 'ended'
              WHEN a.id IS NULL AND q.gone_at IS NOT NULL THEN 'gone'
              WHEN a.id IS NULL AND q.id IS NULL AND r.state = 'reserved'
                AND r.expires_at <= moment AND NOT EXISTS (SELECT FROM tenants_cluster k LEFT
                JOIN metering_clusterwatch w ON w.cluster_id = k.id WHERE k.id = r.cluster_id
                AND k.is_watched AND (w.healthy_at IS NULL OR w.healthy_at < r.expires_at))
                AND NOT EXISTS (SELECT FROM metering_queuedpod u
                WHERE r.resource LIKE 'claim/%' AND u.gone_at IS NULL
                AND u.cluster_id = r.cluster_id AND u.namespace = r.namespace
                AND u.requests ? ('claim/' || r.pod_name)
                AND NOT EXISTS (SELECT FROM metering_podallocation x
                WHERE x.cluster_id = r.cluster_id AND x.pod_uid = r.pod_uid)) THEN 'expired'
              WHEN p.id IS NULL THEN 'unbound'
              WHEN coalesce(nullif(a.size, ''), r.size, '') = '' THEN 'unsized'
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
SELECT f.id, f.cluster_id, f.pod_uid::text, f.resource::text, f.namespace::text, f.pod_name::text,
       f.controller::text, f.organization_id, f.project_id, f.owner::text, f.username::text,
       f.size::text, f.units, f.model_groups, f.is_burst,
       CASE f.over WHEN '' THEN f.alive ELSE 'released' END, f.over, f.origin::text, f.is_seen,
       f.over IN ('', 'unsized') AND f.origin = 'found'
         AND coalesce(f.state_before, 'released') = 'released'
         AND coalesce(f.reason_before, 'expired') = 'expired', f.organization_before
  FROM facts f
 WHERE CASE WHEN f.id IS NULL THEN f.over IN ('', 'unsized')
            WHEN f.over <> '' THEN f.state_before <> 'released'
            ELSE f.state_before <> f.alive OR (f.is_seen AND f.expires_at IS NOT NULL)
              OR f.before IS DISTINCT FROM (
                   f.organization_id, f.project_id, f.username::varchar, f.size::varchar, f.units,
                   f.model_groups, f.is_burst)
       END;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_wanted_of(timestamptz, text[], jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_wanted_of(timestamptz, text[], jsonb) TO gpu_ledger_runtime;
