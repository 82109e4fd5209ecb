-- What has to change, in batches of keys: by organization, so that few are locked at a time, and
-- within one what counts more before what is released. Nothing is locked here.
CREATE OR REPLACE FUNCTION quotas_batches(moment timestamptz, burst_classes text[],
  keys_max integer)
RETURNS TABLE (keys jsonb) LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
  SELECT jsonb_agg(jsonb_build_object(
           'cluster_id', t.cluster_id, 'pod_uid', t.pod_uid, 'resource', t.resource,
           'organization_id', t.organization_id, 'organization_before', t.organization_before))
    FROM (SELECT w.*, (row_number() OVER (
                   ORDER BY coalesce(w.organization_id, w.organization_before),
                            w.state = 'released', w.cluster_id, w.pod_uid, w.resource)
                 - 1) / keys_max AS batch
            FROM quotas_wanted(moment, burst_classes) w) t
   GROUP BY t.batch
   ORDER BY t.batch
$$;
REVOKE EXECUTE ON FUNCTION quotas_batches(timestamptz, text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_batches(timestamptz, text[], integer) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_batches;
