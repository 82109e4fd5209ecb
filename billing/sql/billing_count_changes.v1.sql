-- Counts the changes of a book's prices and of an assignment, for billing_price_mark.
CREATE OR REPLACE FUNCTION billing_count_changes() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF TG_TABLE_NAME = 'billing_price' THEN
    UPDATE billing_pricebook SET generation = generation + 1 WHERE id = NEW.price_book_id;
  ELSE
    NEW.generation := OLD.generation + 1;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER billing_price_counts_changes AFTER INSERT OR UPDATE ON billing_price
  FOR EACH ROW EXECUTE FUNCTION billing_count_changes();
ALTER TABLE billing_price ENABLE ALWAYS TRIGGER billing_price_counts_changes;
CREATE TRIGGER billing_pricebookassignment_counts_changes BEFORE UPDATE ON
  billing_pricebookassignment FOR EACH ROW EXECUTE FUNCTION billing_count_changes();
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_counts_changes;
-- reverse
DROP TRIGGER billing_price_counts_changes ON billing_price;
DROP TRIGGER billing_pricebookassignment_counts_changes ON billing_pricebookassignment;
DROP FUNCTION billing_count_changes;
