-- A series begins at its first number; its numbers are taken one by one, each with the date of its
-- transaction, or that of the number in front of it where a clock was set back.
CREATE TRIGGER billing_invoiceseries_refuses_update BEFORE UPDATE ON billing_invoiceseries
  FOR EACH ROW WHEN (
    (OLD.code, OLD.first_number) IS DISTINCT FROM (NEW.code, NEW.first_number)
    OR NEW.next_number <> OLD.next_number + 1
    OR (NEW.last_issued_at = OLD.last_issued_at
        OR NEW.last_issued_at >= coalesce(OLD.last_issued_at, '-infinity')
       AND NEW.last_issued_at BETWEEN transaction_timestamp() AND clock_timestamp()) IS NOT TRUE)
  EXECUTE FUNCTION ledger_refuse('numbers are taken one by one, with a date');
CREATE TRIGGER billing_invoiceseries_refuses_insert BEFORE INSERT ON billing_invoiceseries
  FOR EACH ROW WHEN (
    NEW.next_number <> NEW.first_number + 1 OR NEW.first_number < 1
    OR (NEW.last_issued_at BETWEEN transaction_timestamp() AND clock_timestamp()) IS NOT TRUE)
  EXECUTE FUNCTION ledger_refuse('a series begins with its first number and date');
ALTER TABLE billing_invoiceseries
  ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_update,
  ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_insert;
-- reverse
DROP TRIGGER billing_invoiceseries_refuses_insert ON billing_invoiceseries;
DROP TRIGGER billing_invoiceseries_refuses_update ON billing_invoiceseries;
