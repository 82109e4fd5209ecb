-- Charges of a final invoice stay linked to their lines.
CREATE OR REPLACE FUNCTION billing_keep_billed_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT line_id FROM old_rows UNION SELECT line_id FROM new_rows) r
               JOIN billing_invoiceline l ON l.id = r.line_id JOIN billing_invoice i
                 ON i.id = l.invoice_id
              WHERE i.state = 'final') THEN
    RAISE EXCEPTION 'UPDATE on charges is refused: the invoice is final'
      USING ERRCODE = 'restrict_violation', HINT = 'Correct it by a credit note.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION billing_keep_billed_charges;
