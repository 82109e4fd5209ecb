-- Adding up reads every live reservation, so organizations whose counters are all open are
-- skipped first.
CREATE OR REPLACE FUNCTION quotas_open_counters(organization uuid) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE made integer;
BEGIN
  PERFORM pg_advisory_xact_lock(quotas_lock_key(organization));
  PERFORM FROM quotas_quotalimit l
    WHERE l.organization_id = organization
      AND NOT EXISTS (SELECT FROM quotas_quotacounter c WHERE c.limit_id = l.id) LIMIT 1;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  INSERT INTO quotas_quotacounter
    (limit_id, held_units, reserved_units, burst_held_units, burst_reserved_units)
  SELECT n.limit_id, n.held_units, n.reserved_units, n.burst_held_units, n.burst_reserved_units
    FROM quotas_counted n
   WHERE n.organization_id = organization
     AND NOT EXISTS (SELECT FROM quotas_quotacounter c WHERE c.limit_id = n.limit_id)
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS made = ROW_COUNT;
  RETURN made;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_open_counters(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_open_counters(uuid) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_open_counters;
