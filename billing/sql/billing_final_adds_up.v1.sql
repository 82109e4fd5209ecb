-- A final invoice has a number of its series, and its lines add up to its total; checked when the
-- transaction commits.
CREATE OR REPLACE FUNCTION billing_final_adds_up() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM billing_invoiceseries s WHERE s.code = NEW.series
    AND NEW.number BETWEEN 1
                    AND s.next_number - 1)
     OR (SELECT coalesce(sum(l.amount), 0) FROM billing_invoiceline l WHERE l.invoice_id = NEW.id)
        <> NEW.total THEN
    RAISE EXCEPTION 'invoice % is final without its number or its lines', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Finalize it: that numbers and checks it.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION billing_final_adds_up;
