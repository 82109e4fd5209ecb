-- The number of refusals must never fall, or rates over it jump: old rows are added up in one row
-- for each cluster, reason and size, which names no namespace.
CREATE OR REPLACE FUNCTION quotas_fold_refusals(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE folded integer;
BEGIN
  WITH old AS (
    SELECT f.id FROM quotas_admissionrefusal f
     WHERE f.last_at < before AND f.namespace <> ''
     ORDER BY f.last_at LIMIT most
       FOR UPDATE SKIP LOCKED),
  gone AS (
    DELETE FROM quotas_admissionrefusal f USING old WHERE f.id = old.id RETURNING f.*),
  summed AS (
    INSERT INTO quotas_admissionrefusal AS known (
      cluster_id, namespace, workload, code, size, units, username, message, count, first_at,
      last_at)
    SELECT g.cluster_id, '', '', g.code, g.size, 0, '', '', least(sum(g.count), 2147483647),
           min(g.first_at), max(g.last_at)
      FROM gone g GROUP BY g.cluster_id, g.code, g.size
     ORDER BY g.cluster_id, g.code, g.size
    ON CONFLICT (cluster_id, namespace, workload, code, size) DO UPDATE
       SET count = least(known.count::bigint + excluded.count, 2147483647),
           first_at = least(known.first_at, excluded.first_at),
           last_at = greatest(known.last_at, excluded.last_at))
  SELECT count(*) INTO folded FROM gone;
  RETURN folded;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_fold_refusals(timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_fold_refusals(timestamptz, integer) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_fold_refusals;
