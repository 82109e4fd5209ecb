-- The time-of-use band of a price is part of its key, and never changes.
DROP TRIGGER billing_price_refuses_update ON billing_price;
CREATE TRIGGER billing_price_refuses_update BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid),
      OLD.published_at, OLD.replaces_id, OLD.cluster_id, OLD.band)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.size, NEW.price_group, NEW.unit_price,
      lower(NEW.valid), NEW.published_at, NEW.replaces_id, NEW.cluster_id, NEW.band))
  EXECUTE FUNCTION ledger_refuse('a price is closed or superseded, never edited');
ALTER TABLE billing_price ENABLE ALWAYS TRIGGER billing_price_refuses_update;
-- reverse
DROP TRIGGER billing_price_refuses_update ON billing_price;
CREATE TRIGGER billing_price_refuses_update BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid),
      OLD.published_at, OLD.replaces_id, OLD.cluster_id)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.size, NEW.price_group, NEW.unit_price,
      lower(NEW.valid), NEW.published_at, NEW.replaces_id, NEW.cluster_id))
  EXECUTE FUNCTION ledger_refuse('a price is closed or superseded, never edited');
ALTER TABLE billing_price ENABLE ALWAYS TRIGGER billing_price_refuses_update;
