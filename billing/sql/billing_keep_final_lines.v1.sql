-- Once an invoice is final, its lines are neither added, changed nor deleted. The search_path is
-- fixed, so that no temporary table of a session replaces a ledger.
CREATE OR REPLACE FUNCTION billing_keep_final_lines() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE invoice uuid;
BEGIN
  FOREACH invoice IN ARRAY CASE TG_OP
      WHEN 'INSERT' THEN ARRAY[NEW.invoice_id]
      WHEN 'DELETE' THEN ARRAY[OLD.invoice_id]
      ELSE ARRAY[OLD.invoice_id, NEW.invoice_id] END LOOP
    IF EXISTS (SELECT FROM billing_invoice i WHERE i.id = invoice AND i.state = 'final') THEN
      RAISE EXCEPTION '% on invoice lines is refused: the invoice is final', TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Correct it by a credit note.';
    END IF;
  END LOOP;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
-- reverse
DROP FUNCTION billing_keep_final_lines;
