-- Releases reservations that the watch has not observed, and that the API server disproved. What was
-- observed, replaced or released meanwhile stays as it is. A pod that appears after all counts again
-- once the watch observes it.
--
-- A name that another pod has by now disproves a reservation only if that pod is counted itself:
-- one whose own reservation was released unseen is counted by this one.
CREATE OR REPLACE FUNCTION quotas_release_unseen(
  reservations bigint[], present text[], why text, moment timestamptz)
RETURNS integer LANGUAGE plpgsql SET search_path = public, pg_temp SET enable_seqscan = off
  SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan SET lock_timeout = '500ms' AS $$
DECLARE
  organization uuid;
  over_ids bigint[];
  settled integer := 0;
BEGIN
  FOR organization IN
    SELECT DISTINCT r.organization_id FROM quotas_reservation r
     WHERE r.id = ANY (reservations) ORDER BY r.organization_id
  LOOP
    PERFORM quotas_open_counters(organization);
    SELECT array_agg(r.id) INTO over_ids
      FROM unnest(reservations, present) AS g(id, present_uid)
      JOIN quotas_reservation r ON r.id = g.id
     WHERE r.organization_id = organization AND r.state = 'reserved'
       AND r.expires_at IS NOT NULL AND r.pod_uid <> g.present_uid
       AND NOT EXISTS (SELECT FROM quotas_reservation o
                        WHERE o.cluster_id = r.cluster_id AND o.pod_uid = g.present_uid
                          AND o.state = 'released')
       AND NOT EXISTS (SELECT FROM metering_podallocation a
                        WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid)
       AND NOT EXISTS (SELECT FROM metering_queuedpod q
                        WHERE q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid);
    IF over_ids IS NOT NULL THEN
      settled := settled + quotas_release(
        organization, over_ids, array_fill(why, ARRAY[cardinality(over_ids)]), moment);
    END IF;
  END LOOP;
  RETURN settled;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_release_unseen(bigint[], text[], text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_release_unseen(bigint[], text[], text, timestamptz)
  TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_release_unseen;
