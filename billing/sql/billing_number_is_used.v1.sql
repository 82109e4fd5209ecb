-- A number and its final invoice come in one transaction; checked when it commits.
CREATE OR REPLACE FUNCTION billing_number_is_used() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM billing_invoice i WHERE i.series = NEW.code
                    AND i.number = NEW.next_number - 1 AND i.state = 'final') THEN
    RAISE EXCEPTION 'number % of series % has no final invoice', NEW.next_number - 1, NEW.code
      USING ERRCODE = 'restrict_violation', HINT = 'A number is taken by finalizing an invoice.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION billing_number_is_used;
