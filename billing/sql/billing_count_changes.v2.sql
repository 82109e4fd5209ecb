-- Counts the changes of a book's prices and calendars, and of an assignment, for billing_price_mark.
CREATE OR REPLACE FUNCTION billing_count_changes() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF TG_TABLE_NAME IN ('billing_price', 'billing_pricecalendar') THEN
    UPDATE billing_pricebook SET generation = generation + 1 WHERE id = NEW.price_book_id;
  ELSE
    NEW.generation := OLD.generation + 1;
  END IF;
  RETURN NEW;
END $$;
-- reverse
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
