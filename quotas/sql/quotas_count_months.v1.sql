-- Sets the month's usage, which metering reports, on the counters of limits with an allowance.
-- Counters are locked in the order of admission, so that the two never deadlock.
CREATE OR REPLACE FUNCTION quotas_count_months(month_begin date, used jsonb) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE written integer;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(quotas_lock_key(o.organization_id))
     FROM (SELECT DISTINCT organization_id FROM quotas_quotalimit
            WHERE monthly_unit_hours IS NOT NULL ORDER BY organization_id) o;
  PERFORM FROM quotas_quotacounter c JOIN quotas_quotalimit l ON l.id = c.limit_id
    WHERE l.monthly_unit_hours IS NOT NULL
    ORDER BY l.organization_id,
             array_position('{organization,project,user}'::text[], l.scope::text),
             l.cluster_id IS NOT NULL, l.id
      FOR NO KEY UPDATE OF c;
  UPDATE quotas_quotacounter c
     SET month = month_begin, month_unit_seconds = m.unit_seconds
    FROM (SELECT l.id, coalesce(sum(x.unit_seconds), 0) AS unit_seconds
            FROM quotas_quotalimit l
            LEFT JOIN auth_user l_user ON l_user.id = l.user_id
            LEFT JOIN jsonb_to_recordset(used) AS x(
              organization_id uuid, project_id uuid, username text, cluster_id uuid, size text,
              model_groups text[], unit_seconds bigint)
              ON l.organization_id = x.organization_id AND l.size = x.size
                AND (l.project_id IS NULL OR l.project_id = x.project_id)
                AND (l.user_id IS NULL OR l_user.username = x.username)
                AND (l.cluster_id IS NULL OR l.cluster_id = x.cluster_id)
                AND (l.model_group = '' OR x.model_groups = '{}'
                OR l.model_group = ANY (x.model_groups))
           WHERE l.monthly_unit_hours IS NOT NULL
           GROUP BY l.id) m
   WHERE c.limit_id = m.id;
  GET DIAGNOSTICS written = ROW_COUNT;
  RETURN written;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_count_months(date, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_count_months(date, jsonb) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_count_months;
