-- Archived months are written by the owner of the tables alone; of a row only that it was restored
-- is added, once.
CREATE TRIGGER tenants_archivedmonth_refuses_update BEFORE UPDATE ON tenants_archivedmonth
  FOR EACH ROW WHEN (
    OLD.restored_at IS NOT NULL OR NEW.restored_at IS NULL
    OR (OLD.id, OLD.table_name, OLD.label, OLD.begin_at, OLD.end_at, OLD.row_count, OLD.sums,
        OLD.manifest_sha256, OLD.windows_sha256, OLD.location, OLD.detached_at, OLD.detached_by,
        OLD.reason)
    IS DISTINCT FROM (NEW.id, NEW.table_name, NEW.label, NEW.begin_at, NEW.end_at, NEW.row_count,
        NEW.sums, NEW.manifest_sha256, NEW.windows_sha256, NEW.location, NEW.detached_at,
        NEW.detached_by, NEW.reason))
  EXECUTE FUNCTION ledger_refuse('an archived month is restored once');
CREATE TRIGGER tenants_archivedmonth_refuses_delete BEFORE DELETE ON tenants_archivedmonth
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('archived months are kept for ever');
CREATE TRIGGER tenants_archivedmonth_refuses_truncate BEFORE TRUNCATE ON tenants_archivedmonth
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('archived months are kept for ever');
ALTER TABLE tenants_archivedmonth
  ENABLE ALWAYS TRIGGER tenants_archivedmonth_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_archivedmonth_refuses_delete,
  ENABLE ALWAYS TRIGGER tenants_archivedmonth_refuses_truncate;
REVOKE ALL ON tenants_archivedmonth FROM gpu_ledger_runtime;
GRANT SELECT ON tenants_archivedmonth TO gpu_ledger_runtime;
-- reverse
DROP TRIGGER tenants_archivedmonth_refuses_update ON tenants_archivedmonth;
DROP TRIGGER tenants_archivedmonth_refuses_delete ON tenants_archivedmonth;
DROP TRIGGER tenants_archivedmonth_refuses_truncate ON tenants_archivedmonth;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenants_archivedmonth TO gpu_ledger_runtime;
