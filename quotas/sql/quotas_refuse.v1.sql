-- One row for each workload, code and size counts its refusals.
CREATE OR REPLACE FUNCTION quotas_refuse(
  question jsonb, organization uuid, project uuid, person text, verdict jsonb)
RETURNS void LANGUAGE sql SET search_path = public, pg_temp AS $$
  INSERT INTO quotas_admissionrefusal (
    cluster_id, namespace, workload, code, size, units, organization_id, project_id, username,
    message, count, first_at, last_at)
  SELECT (question->>'cluster_id')::uuid, question->>'namespace',
         coalesce(nullif(question->>'controller', ''), 'Pod/' || (question->>'pod_name')),
         verdict->>'code', coalesce(b->>'size', d->>'size', ''),
         coalesce((b->>'asked_units')::bigint, (d->>'units')::bigint, 0),
         organization, project, person,
         CASE WHEN b->>'holder' IS NULL THEN coalesce(verdict->>'reason', '')
              ELSE format('%s %s: %s of %s %s held, %s reserved, %s asked.', b->>'scope',
                          b->>'holder', b->>'used_units', b->>'limit_units', b->>'size',
                          b->>'reserved_units', b->>'asked_units') END,
         1, (question->>'at')::timestamptz, (question->>'at')::timestamptz
    FROM (SELECT verdict->'blocker' AS b, question->'demands'->0 AS d) t
  ON CONFLICT (cluster_id, namespace, workload, code, size) DO UPDATE
     SET count = quotas_admissionrefusal.count + 1, units = excluded.units,
         message = excluded.message, organization_id = excluded.organization_id,
         project_id = excluded.project_id, username = excluded.username,
         last_at = greatest(quotas_admissionrefusal.last_at, excluded.last_at)
$$;
REVOKE EXECUTE ON FUNCTION quotas_refuse(jsonb, uuid, uuid, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_refuse(jsonb, uuid, uuid, text, jsonb) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_refuse;
