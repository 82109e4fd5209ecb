-- What billing reads of some sealed windows, or of some corrections. It is called where nested
-- loops are ruled out, which would have all facts there are read for each hour: here they are
-- allowed, so that the facts of few records are found by their key. Planned anew each time: how
-- many records there are depends on the windows.
CREATE FUNCTION metering_sealed_usage_of(windows bigint[], hours timestamptz[])
RETURNS TABLE (
  window_id bigint, window_start timestamptz, cluster_id uuid, organization_id uuid,
  project_id uuid, owner text, size text, price_group text, correction_id uuid,
  unit_seconds bigint)
LANGUAGE plpgsql STABLE ROWS 10000
SET enable_nestloop TO on SET plan_cache_mode TO force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner::text,
         u.size::text, u.price_group::text, u.correction_id, u.unit_seconds
    FROM metering_sealed_usage u
   WHERE u.window_id = ANY(windows) AND u.window_start = ANY(hours) AND u.correction_id IS NULL;
END $$;
CREATE FUNCTION metering_corrected_usage_of(corrections uuid[], hours timestamptz[])
RETURNS TABLE (
  window_id bigint, window_start timestamptz, cluster_id uuid, organization_id uuid,
  project_id uuid, owner text, size text, price_group text, correction_id uuid,
  unit_seconds bigint)
LANGUAGE plpgsql STABLE ROWS 100
SET enable_nestloop TO on SET plan_cache_mode TO force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner::text,
         u.size::text, u.price_group::text, u.correction_id, u.unit_seconds
    FROM metering_sealed_usage u
   WHERE u.correction_id = ANY(corrections) AND u.window_start = ANY(hours);
END $$;
-- reverse
DROP FUNCTION metering_corrected_usage_of;
DROP FUNCTION metering_sealed_usage_of;
