-- A tier schedule stays as it was published; it is withdrawn or superseded, each once.
DROP TRIGGER billing_tierschedule_refuses_update ON billing_tierschedule;
CREATE TRIGGER billing_tierschedule_refuses_update BEFORE UPDATE ON billing_tierschedule
  FOR EACH ROW WHEN (
    OLD.withdrawn_at IS NOT NULL
    OR (OLD.superseded_from <> '' AND OLD.superseded_from <> NEW.superseded_from)
    OR (NEW.superseded_from <> ''
      AND NEW.superseded_from NOT BETWEEN OLD.first_month AND OLD.last_month)
    OR (OLD.id, OLD.price_book_id, OLD.name, OLD.basis, OLD.kind, OLD.scope, OLD.span,
      OLD.year_begins, OLD.sizes, OLD.price_groups, OLD.first_month, OLD.last_month, OLD.bands,
      OLD.published_at, OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.name, NEW.basis, NEW.kind, NEW.scope, NEW.span,
      NEW.year_begins, NEW.sizes, NEW.price_groups, NEW.first_month, NEW.last_month, NEW.bands,
      NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('a tier schedule is withdrawn or replaced, never edited');
ALTER TABLE billing_tierschedule ENABLE ALWAYS TRIGGER billing_tierschedule_refuses_update;
-- reverse
DROP TRIGGER billing_tierschedule_refuses_update ON billing_tierschedule;
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
ALTER TABLE billing_tierschedule ENABLE ALWAYS TRIGGER billing_tierschedule_refuses_update;
