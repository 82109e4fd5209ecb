-- A draft of prices is decided once, and stays as it was proposed.
CREATE TRIGGER billing_pricedraft_refuses_update BEFORE UPDATE ON billing_pricedraft
  FOR EACH ROW WHEN (
    OLD.state <> 'proposed'
    OR (OLD.id, OLD.price_book_id, OLD.valid_from, OLD.prices, OLD.month, OLD.effects, OLD.reason,
      OLD.requested_by, OLD.requested_by_id, OLD.requested_at)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.valid_from, NEW.prices, NEW.month,
      NEW.effects, NEW.reason, NEW.requested_by, NEW.requested_by_id, NEW.requested_at))
  EXECUTE FUNCTION ledger_refuse('a draft of prices is decided once');
CREATE TRIGGER billing_pricedraft_refuses_delete BEFORE DELETE ON billing_pricedraft
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a draft of prices is rejected, never deleted');
CREATE TRIGGER billing_pricedraft_refuses_truncate BEFORE TRUNCATE ON billing_pricedraft
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('drafts of prices are never truncated');
ALTER TABLE billing_pricedraft
  ENABLE ALWAYS TRIGGER billing_pricedraft_refuses_update,
  ENABLE ALWAYS TRIGGER billing_pricedraft_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_pricedraft_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_pricedraft FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_pricedraft_refuses_truncate ON billing_pricedraft;
DROP TRIGGER billing_pricedraft_refuses_delete ON billing_pricedraft;
DROP TRIGGER billing_pricedraft_refuses_update ON billing_pricedraft;
