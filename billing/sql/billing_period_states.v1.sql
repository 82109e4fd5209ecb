-- A month goes from open over review and approved to closed. One that is not closed can be opened
-- again; an open one closes at once where it has no use, or where two people act in one step.
DROP TRIGGER billing_billingperiod_refuses_update ON billing_billingperiod;
CREATE TRIGGER billing_billingperiod_refuses_update BEFORE UPDATE ON billing_billingperiod
  FOR EACH ROW WHEN (
    OLD.state = 'closed'
    OR (OLD.organization_id, OLD.label, OLD.hours)
       IS DISTINCT FROM (NEW.organization_id, NEW.label, NEW.hours)
    OR (OLD.state, NEW.state) IN (('open', 'approved'), ('approved', 'review'),
                                  ('review', 'closed')))
  EXECUTE FUNCTION ledger_refuse('a period is computed once, and closes step by step');
ALTER TABLE billing_billingperiod ENABLE ALWAYS TRIGGER billing_billingperiod_refuses_update;
-- reverse
DROP TRIGGER billing_billingperiod_refuses_update ON billing_billingperiod;
CREATE TRIGGER billing_billingperiod_refuses_update BEFORE UPDATE ON billing_billingperiod
  FOR EACH ROW WHEN (
    OLD.state = 'closed' OR (OLD.organization_id, OLD.label, OLD.hours)
    IS DISTINCT FROM (NEW.organization_id, NEW.label, NEW.hours))
  EXECUTE FUNCTION ledger_refuse('a period is computed once');
ALTER TABLE billing_billingperiod ENABLE ALWAYS TRIGGER billing_billingperiod_refuses_update;
