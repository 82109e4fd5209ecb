-- A price or an assignment without an end may be closed, and one in use may be superseded, once;
-- nothing else of it ever changes.
DROP TRIGGER billing_price_refuses_update ON billing_price;
CREATE TRIGGER billing_price_refuses_update BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid),
      OLD.published_at, OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.size, NEW.price_group, NEW.unit_price,
      lower(NEW.valid), NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('a price is closed or superseded, never edited');
ALTER TABLE billing_price ENABLE ALWAYS TRIGGER billing_price_refuses_update;

DROP TRIGGER billing_pricebookassignment_refuses_update ON billing_pricebookassignment;
CREATE TRIGGER billing_pricebookassignment_refuses_update BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.organization_id, OLD.price_book_id, lower(OLD.valid), OLD.published_at,
      OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.price_book_id, lower(NEW.valid),
      NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('an assignment is closed or superseded, never edited');
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_update;
-- reverse
DROP TRIGGER billing_price_refuses_update ON billing_price;
CREATE TRIGGER billing_price_refuses_update BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (
    NOT upper_inf(OLD.valid)
    OR (OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid))
    IS DISTINCT FROM (NEW.price_book_id, NEW.size, NEW.price_group, NEW.unit_price,
      lower(NEW.valid)))
  EXECUTE FUNCTION ledger_refuse('a price is closed and succeeded, never edited');
ALTER TABLE billing_price ENABLE ALWAYS TRIGGER billing_price_refuses_update;

DROP TRIGGER billing_pricebookassignment_refuses_update ON billing_pricebookassignment;
CREATE TRIGGER billing_pricebookassignment_refuses_update BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (
    NOT upper_inf(OLD.valid) OR (OLD.organization_id, OLD.price_book_id, lower(OLD.valid))
    IS DISTINCT FROM (NEW.organization_id, NEW.price_book_id, lower(NEW.valid)))
  EXECUTE FUNCTION ledger_refuse('an assignment is closed and succeeded, never edited');
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_update;
