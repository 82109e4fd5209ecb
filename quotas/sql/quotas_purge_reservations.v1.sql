-- Deletes a bounded batch of old released reservations. A released reservation may still be about
-- a live pod: handed over to its device claim, in a namespace without a project, or expired and
-- observed since; the sweep and preemption read it. Rows that others have locked are skipped
-- until the next batch.
CREATE OR REPLACE FUNCTION quotas_purge_reservations(before timestamptz, most integer)
  RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE purged integer;
BEGIN
  WITH old AS (
    SELECT r.id FROM quotas_reservation r
     WHERE r.state = 'released' AND r.released_at < before AND NOT (
     EXISTS (SELECT FROM metering_podallocation a
              WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid AND a.end_at IS NULL)
  OR EXISTS (SELECT FROM metering_queuedpod q
              WHERE q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid AND q.gone_at IS NULL
                AND NOT EXISTS (SELECT FROM metering_podallocation a
                                 WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid))
  OR EXISTS (SELECT FROM metering_claimconsumer m
               JOIN metering_podallocation a
                 ON a.cluster_id = m.cluster_id AND a.pod_uid = m.claim_uid AND a.end_at IS NULL
              WHERE m.cluster_id = r.cluster_id AND m.pod_uid = r.pod_uid AND m.end_at IS NULL)
  OR EXISTS (SELECT FROM metering_queuedpod w
              WHERE w.cluster_id = r.cluster_id AND w.bound_at IS NULL
                AND r.resource LIKE 'claim/%' AND w.gone_at IS NULL
                  AND w.cluster_id = r.cluster_id AND w.namespace = r.namespace
                  AND w.requests ? ('claim/' || r.pod_name)
                  AND NOT EXISTS (SELECT FROM metering_podallocation x
                  WHERE x.cluster_id = r.cluster_id AND x.pod_uid = r.pod_uid))
)
     ORDER BY r.released_at LIMIT most
       FOR UPDATE OF r SKIP LOCKED)
  DELETE FROM quotas_reservation r USING old WHERE r.id = old.id;
  GET DIAGNOSTICS purged = ROW_COUNT;
  RETURN purged;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_purge_reservations(timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_purge_reservations(timestamptz, integer) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_purge_reservations;
