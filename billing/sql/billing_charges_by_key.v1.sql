-- A charge belongs to the line with its key: nothing of it is ever updated.
DROP TRIGGER billing_charge_keeps_billed ON billing_charge;
DROP FUNCTION billing_keep_billed_charges;
DROP TRIGGER billing_charge_refuses_update ON billing_charge;
CREATE TRIGGER billing_charge_refuses_update BEFORE UPDATE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_refuses_update;
REVOKE UPDATE ON billing_charge FROM gpu_ledger_runtime;
-- reverse
GRANT UPDATE ON billing_charge TO gpu_ledger_runtime;
DROP TRIGGER billing_charge_refuses_update ON billing_charge;
CREATE TRIGGER billing_charge_refuses_update BEFORE UPDATE ON billing_charge
  FOR EACH ROW WHEN (
    (OLD.id, OLD.correction_id, OLD.window_id, OLD.window_start, OLD.cluster_id,
      OLD.organization_id, OLD.project_id, OLD.owner, OLD.size, OLD.price_group, OLD.tier,
      OLD.price_id, OLD.unit_price, OLD.currency, OLD.unit_seconds, OLD.period_id, OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.correction_id, NEW.window_id, NEW.window_start, NEW.cluster_id,
      NEW.organization_id, NEW.project_id, NEW.owner, NEW.size, NEW.price_group, NEW.tier,
      NEW.price_id, NEW.unit_price, NEW.currency, NEW.unit_seconds, NEW.period_id, NEW.created_at))
  EXECUTE FUNCTION ledger_refuse('only the link to a line changes');
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
CREATE TRIGGER billing_charge_keeps_billed AFTER UPDATE ON billing_charge REFERENCING OLD TABLE AS
  old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_keep_billed_charges();
ALTER TABLE billing_charge
  ENABLE ALWAYS TRIGGER billing_charge_refuses_update,
  ENABLE ALWAYS TRIGGER billing_charge_keeps_billed;
