-- Triggers and privileges of a month's partition of charges: of a new one, and of one that the owner
-- of the tables restores from an archive. No role has rights on a partition itself.
CREATE OR REPLACE FUNCTION billing_guard_charge_partition(name text) RETURNS void LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON %I FROM gpu_ledger_runtime', name);
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
    EXECUTE FUNCTION ledger_refuse(''charges are never truncated'')', name || '_truncate', name);
  EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
END $$;
REVOKE EXECUTE ON FUNCTION billing_guard_charge_partition FROM PUBLIC;
-- reverse
DROP FUNCTION billing_guard_charge_partition;
