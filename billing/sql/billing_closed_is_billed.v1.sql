-- A month that closes has no charges, or a final document of its first run bills them. It is checked
-- at the end of the transaction: finalizing closes the month before its documents are final.
CREATE FUNCTION billing_closed_is_billed() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM billing_charge WHERE period_id = NEW.id)
     AND NOT EXISTS (
       SELECT FROM billing_invoice
        WHERE period_id = NEW.id AND run = 1 AND state = 'final' AND corrects_id IS NULL)
  THEN
    RAISE EXCEPTION 'the month % has charges and no final document', NEW.label
      USING ERRCODE = 'restrict_violation', HINT = 'Finalize its documents: that closes it.';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_billingperiod_closed_is_billed
  AFTER INSERT OR UPDATE OF state ON billing_billingperiod
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'closed')
  EXECUTE FUNCTION billing_closed_is_billed();
ALTER TABLE billing_billingperiod ENABLE ALWAYS TRIGGER billing_billingperiod_closed_is_billed;
-- reverse
DROP TRIGGER billing_billingperiod_closed_is_billed ON billing_billingperiod;
DROP FUNCTION billing_closed_is_billed;
