-- Live reservations that no longer count, with the reason. A pod that the watch has observed does
-- not expire, nor one that the watch could not have observed: only a heartbeat after its time
-- proves that it is not there. Where no watch is required, time alone decides. The watch reports
-- device claims only once they are allocated; until then a claim lives as long as a pod that uses
-- it.
CREATE OR REPLACE FUNCTION quotas_over(organization uuid, moment timestamptz)
RETURNS TABLE (reservation_id bigint, reason text)
LANGUAGE sql STABLE SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
  SELECT r.id,
         CASE WHEN a.end_at IS NOT NULL THEN 'ended'
              WHEN q.gone_at IS NOT NULL THEN 'gone' ELSE 'expired' END
    FROM quotas_reservation r
    LEFT JOIN metering_podallocation a
      ON a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid AND a.resource = r.resource
    LEFT JOIN metering_queuedpod q ON q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid
   WHERE r.organization_id = organization AND r.state <> 'released'
     AND (a.end_at IS NOT NULL
          OR (a.id IS NULL AND q.gone_at IS NOT NULL)
          OR (a.id IS NULL AND q.id IS NULL AND r.state = 'reserved'
            AND r.expires_at <= moment AND NOT EXISTS (SELECT FROM tenants_cluster k LEFT
            JOIN metering_clusterwatch w ON w.cluster_id = k.id WHERE k.id = r.cluster_id
            AND k.is_watched AND (w.healthy_at IS NULL OR w.healthy_at < r.expires_at))
            AND NOT EXISTS (SELECT FROM metering_queuedpod u WHERE r.resource LIKE 'claim/%'
            AND u.gone_at IS NULL AND u.cluster_id = r.cluster_id
            AND u.namespace = r.namespace AND u.requests ? ('claim/' || r.pod_name)
            AND NOT EXISTS (SELECT FROM metering_podallocation x
            WHERE x.cluster_id = r.cluster_id AND x.pod_uid = r.pod_uid))))
$$;
REVOKE EXECUTE ON FUNCTION quotas_over(uuid, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_over(uuid, timestamptz) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_over;
