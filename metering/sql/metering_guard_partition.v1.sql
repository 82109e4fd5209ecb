-- Triggers and privileges of a month's partition of usage: of a new one, and of one that the owner
-- of the tables restores from an archive.
CREATE OR REPLACE FUNCTION metering_guard_partition(name text) RETURNS void LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
    EXECUTE FUNCTION ledger_refuse(''usage is never truncated'')', name || '_truncate', name);
  EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage()', name || '_insert', name);
  EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_insert');
  EXECUTE format('GRANT SELECT, INSERT, DELETE ON %I TO gpu_ledger_runtime', name);
  EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM gpu_ledger_runtime', name);
END $$;
REVOKE EXECUTE ON FUNCTION metering_guard_partition FROM PUBLIC;
-- reverse
DROP FUNCTION metering_guard_partition;
