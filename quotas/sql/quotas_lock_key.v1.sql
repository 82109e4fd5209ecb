-- The key of an organization's advisory lock.
CREATE OR REPLACE FUNCTION quotas_lock_key(organization uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
  hashtextextended('quotas.admission ' || organization::text, 0);
REVOKE EXECUTE ON FUNCTION quotas_lock_key(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_lock_key(uuid) TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_lock_key;
