-- The trigger on updates of a series is replaced: its columns become wider.
DROP TRIGGER billing_invoiceseries_refuses_update ON billing_invoiceseries;
-- reverse
CREATE TRIGGER billing_invoiceseries_refuses_update BEFORE UPDATE ON billing_invoiceseries
  FOR EACH ROW WHEN (OLD.code <> NEW.code OR NEW.next_number <> OLD.next_number + 1)
  EXECUTE FUNCTION ledger_refuse('numbers are taken one by one');
ALTER TABLE billing_invoiceseries ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_update;
