-- Writes archived rows of usage, which have the columns of metering_usage, into a new table for a
-- month's partition, and the facts that are not stored here. The planner has no statistics of the
-- staged rows, and would compare each of them with every fact.
CREATE FUNCTION metering_restore_usage(staged text, name text) RETURNS void LANGUAGE plpgsql
SET search_path = public, pg_temp SET enable_nestloop = off AS $$
DECLARE
  facts constant text := 'organization_id, project_id, cluster_id, owner, namespace, pod_name,
    pod_uid, resource, node, size, price_group, sharing_mode, share_numerator, share_denominator,
    units, catalogue_version';
BEGIN
  EXECUTE format('CREATE TABLE %I
    (LIKE metering_usagerecord INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
  EXECUTE format('INSERT INTO metering_usagefact (%s) SELECT DISTINCT %s FROM %I
    ON CONFLICT DO NOTHING', facts, facts, staged);
  EXECUTE format('
    INSERT INTO %I (id, window_id, window_start, fact_id, fact_version, unit_seconds,
      organization_id, revision, split_among, slack_seconds, begin_second, end_second, end_kind,
      busy_ratio, busy_coverage, energy_millijoules, correction_id)
    SELECT s.id, s.window_id, s.window_start, f.id, f.version, s.unit_seconds, organization_id,
           s.revision, s.split_among, s.slack_seconds,
           extract(epoch FROM s.begin_at - s.window_start),
           extract(epoch FROM s.end_at - s.window_start), s.end_kind, s.busy_ratio,
           s.busy_coverage, s.energy_millijoules, s.correction_id
      FROM %I s JOIN metering_usagefact f USING (%s)
     ORDER BY s.window_start, f.id', name, staged, facts);
END $$;
REVOKE EXECUTE ON FUNCTION metering_restore_usage FROM PUBLIC;
-- reverse
DROP FUNCTION metering_restore_usage;
