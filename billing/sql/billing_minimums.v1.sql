-- A minimum charge stays as it was published; it is withdrawn or superseded, each once.
CREATE TRIGGER billing_minimumcharge_refuses_update BEFORE UPDATE ON billing_minimumcharge
  FOR EACH ROW WHEN (
    OLD.withdrawn_at IS NOT NULL
    OR OLD.superseded_from <> ''
    OR (NEW.superseded_from <> '' AND NEW.superseded_from < OLD.first_month)
    OR (OLD.id, OLD.organization_id, OLD.amount, OLD.currency, OLD.first_month, OLD.last_month,
      OLD.published_at, OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.amount, NEW.currency, NEW.first_month,
      NEW.last_month, NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('a minimum charge is withdrawn or replaced, never edited');
CREATE TRIGGER billing_minimumcharge_refuses_delete BEFORE DELETE ON billing_minimumcharge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a minimum charge is withdrawn, never deleted');
CREATE TRIGGER billing_minimumcharge_refuses_truncate BEFORE TRUNCATE ON billing_minimumcharge
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a minimum charge is withdrawn, never deleted');
ALTER TABLE billing_minimumcharge
  ENABLE ALWAYS TRIGGER billing_minimumcharge_refuses_update,
  ENABLE ALWAYS TRIGGER billing_minimumcharge_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_minimumcharge_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_minimumcharge FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_minimumcharge_refuses_truncate ON billing_minimumcharge;
DROP TRIGGER billing_minimumcharge_refuses_delete ON billing_minimumcharge;
DROP TRIGGER billing_minimumcharge_refuses_update ON billing_minimumcharge;
