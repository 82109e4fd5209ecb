-- One limit of a pod, as refusals and warnings describe it.
CREATE OR REPLACE FUNCTION quotas_describe_limit(
  scope text, holder text, size text, model_group text, cluster text, is_burst boolean,
  limit_units bigint, used_units bigint, reserved_units bigint, asked_units bigint)
RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp RETURN jsonb_build_object(
  'scope', scope, 'holder', holder, 'size', size, 'model_group', model_group,
  'cluster', cluster, 'is_burst', is_burst, 'limit_units', limit_units,
  'used_units', used_units, 'reserved_units', reserved_units, 'asked_units', asked_units);
REVOKE EXECUTE ON FUNCTION quotas_describe_limit(text, text, text, text, text, boolean, bigint,
  bigint,
  bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_describe_limit(text, text, text, text, text, boolean, bigint,
  bigint,
  bigint, bigint) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_describe_limit;
