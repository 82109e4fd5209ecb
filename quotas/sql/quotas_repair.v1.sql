-- Only an organization whose counters differ is locked. Correct counters are marked as they
-- become free.
CREATE OR REPLACE FUNCTION quotas_repair(moment timestamptz) RETURNS jsonb LANGUAGE plpgsql
  SET search_path = public, pg_temp AS $$
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
REVOKE EXECUTE ON FUNCTION quotas_repair(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_repair(timestamptz) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_repair;
