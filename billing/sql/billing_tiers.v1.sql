-- A tier schedule stays as it was published; it is withdrawn, once.
CREATE TRIGGER billing_tierschedule_refuses_update BEFORE UPDATE ON billing_tierschedule
  FOR EACH ROW WHEN (
    OLD.withdrawn_at IS NOT NULL
    OR (OLD.id, OLD.price_book_id, OLD.name, OLD.basis, OLD.kind, OLD.scope, OLD.span,
      OLD.year_begins, OLD.sizes, OLD.price_groups, OLD.first_month, OLD.last_month, OLD.bands,
      OLD.published_at)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.name, NEW.basis, NEW.kind, NEW.scope, NEW.span,
      NEW.year_begins, NEW.sizes, NEW.price_groups, NEW.first_month, NEW.last_month, NEW.bands,
      NEW.published_at))
  EXECUTE FUNCTION ledger_refuse('a tier schedule is withdrawn, never edited');
CREATE TRIGGER billing_tierschedule_refuses_delete BEFORE DELETE ON billing_tierschedule
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a tier schedule is withdrawn, never deleted');
CREATE TRIGGER billing_tierschedule_refuses_truncate BEFORE TRUNCATE ON billing_tierschedule
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('tier schedules are never truncated');
ALTER TABLE billing_tierschedule
  ENABLE ALWAYS TRIGGER billing_tierschedule_refuses_update,
  ENABLE ALWAYS TRIGGER billing_tierschedule_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_tierschedule_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_tierschedule FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_tierschedule_refuses_truncate ON billing_tierschedule;
DROP TRIGGER billing_tierschedule_refuses_delete ON billing_tierschedule;
DROP TRIGGER billing_tierschedule_refuses_update ON billing_tierschedule;
