-- A month begins open, and nothing of its closing is noted yet: charges are posted to open ones only.
CREATE TRIGGER billing_billingperiod_begins_open BEFORE INSERT ON billing_billingperiod
  FOR EACH ROW WHEN (
    NEW.state <> 'open'
    OR num_nonnulls(NEW.reviewed_at, NEW.approved_at, NEW.closed_at) > 0
    OR concat(NEW.reviewed_by, NEW.reviewed_by_id, NEW.approved_by, NEW.acknowledgement) <> '')
  EXECUTE FUNCTION ledger_refuse('a month begins open', 'Insert it open, and close it then.');
ALTER TABLE billing_billingperiod ENABLE ALWAYS TRIGGER billing_billingperiod_begins_open;
-- reverse
DROP TRIGGER billing_billingperiod_begins_open ON billing_billingperiod;
