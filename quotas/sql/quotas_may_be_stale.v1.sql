-- Called only for a refusal.
CREATE OR REPLACE FUNCTION quotas_may_be_stale(question jsonb, organization uuid, verdict jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = public, pg_temp
  SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM FROM quotas_over(organization, (question->>'at')::timestamptz) LIMIT 1;
  IF FOUND THEN
    RETURN true;
  END IF;
  -- The same pod may have been let in while this one waited for a counter.
  PERFORM FROM quotas_reservation r
    WHERE r.cluster_id = (question->>'cluster_id')::uuid
      AND r.pod_uid = question->>'pod_uid' AND r.state <> 'released';
  RETURN FOUND AND verdict->>'code' <> 'replayed_otherwise';
END $$;
REVOKE EXECUTE ON FUNCTION quotas_may_be_stale(jsonb, uuid, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_may_be_stale(jsonb, uuid, jsonb) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_may_be_stale;
