-- Triggers that keep charges, prices and final invoices, and what the runtime role may not do.

CREATE TRIGGER billing_accruedcorrection_refuses_update BEFORE UPDATE ON billing_accruedcorrection
  FOR EACH ROW WHEN (OLD.is_complete)
  EXECUTE FUNCTION ledger_refuse('its usage is charged in full');
CREATE TRIGGER billing_accruedcorrection_refuses_delete BEFORE DELETE ON billing_accruedcorrection
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('accrual is never undone');
CREATE TRIGGER billing_accruedcorrection_refuses_truncate BEFORE TRUNCATE ON
  billing_accruedcorrection
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('accrual is never undone');
ALTER TABLE billing_accruedcorrection
  ENABLE ALWAYS TRIGGER billing_accruedcorrection_refuses_update,
  ENABLE ALWAYS TRIGGER billing_accruedcorrection_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_accruedcorrection_refuses_truncate;

CREATE TRIGGER billing_accruedwindow_refuses_update BEFORE UPDATE ON billing_accruedwindow
  FOR EACH ROW WHEN (OLD.is_complete)
  EXECUTE FUNCTION ledger_refuse('its usage is charged in full');
CREATE TRIGGER billing_accruedwindow_refuses_delete BEFORE DELETE ON billing_accruedwindow
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('accrual is never undone');
CREATE TRIGGER billing_accruedwindow_refuses_truncate BEFORE TRUNCATE ON billing_accruedwindow
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('accrual is never undone');
ALTER TABLE billing_accruedwindow
  ENABLE ALWAYS TRIGGER billing_accruedwindow_refuses_update,
  ENABLE ALWAYS TRIGGER billing_accruedwindow_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_accruedwindow_refuses_truncate;

CREATE TRIGGER billing_billingperiod_refuses_update BEFORE UPDATE ON billing_billingperiod
  FOR EACH ROW WHEN (
    OLD.state = 'closed' OR (OLD.organization_id, OLD.label, OLD.hours)
    IS DISTINCT FROM (NEW.organization_id, NEW.label, NEW.hours))
  EXECUTE FUNCTION ledger_refuse('a period is computed once');
ALTER TABLE billing_billingperiod ENABLE ALWAYS TRIGGER billing_billingperiod_refuses_update;

CREATE TRIGGER billing_charge_keeps_billed AFTER UPDATE ON billing_charge REFERENCING OLD TABLE AS
  old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_keep_billed_charges();
CREATE TRIGGER billing_charge_comes_unbilled AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_posted_charges();
CREATE TRIGGER billing_charge_refuses_delete BEFORE DELETE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
CREATE TRIGGER billing_charge_refuses_truncate BEFORE TRUNCATE ON billing_charge
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('charges are never truncated');
CREATE TRIGGER billing_charge_refuses_update BEFORE UPDATE ON billing_charge
  FOR EACH ROW WHEN (
    (OLD.id, OLD.correction_id, OLD.window_id, OLD.window_start, OLD.cluster_id,
      OLD.organization_id, OLD.project_id, OLD.owner, OLD.size, OLD.price_group, OLD.tier,
      OLD.price_id, OLD.unit_price, OLD.currency, OLD.unit_seconds, OLD.period_id, OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.correction_id, NEW.window_id, NEW.window_start, NEW.cluster_id,
      NEW.organization_id, NEW.project_id, NEW.owner, NEW.size, NEW.price_group, NEW.tier,
      NEW.price_id, NEW.unit_price, NEW.currency, NEW.unit_seconds, NEW.period_id, NEW.created_at))
  EXECUTE FUNCTION ledger_refuse('only the link to a line changes');
ALTER TABLE billing_charge
  ENABLE ALWAYS TRIGGER billing_charge_keeps_billed,
  ENABLE ALWAYS TRIGGER billing_charge_comes_unbilled,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_update;

CREATE TRIGGER billing_invoice_refuses_update BEFORE UPDATE ON billing_invoice
  FOR EACH ROW WHEN (OLD.state = 'final')
  EXECUTE FUNCTION ledger_refuse('the invoice is final');
CREATE TRIGGER billing_invoice_refuses_delete BEFORE DELETE ON billing_invoice
  FOR EACH ROW WHEN (OLD.state = 'final')
  EXECUTE FUNCTION ledger_refuse('the invoice is final');
CREATE TRIGGER billing_invoice_refuses_truncate BEFORE TRUNCATE ON billing_invoice
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('invoices are never truncated');
CREATE TRIGGER billing_invoice_refuses_insert BEFORE INSERT ON billing_invoice
  FOR EACH ROW WHEN (NEW.state = 'final' OR NEW.number IS NOT NULL)
  EXECUTE FUNCTION ledger_refuse(
    'an invoice begins as a draft, and is numbered when it is finalized');
CREATE CONSTRAINT TRIGGER billing_invoice_adds_up AFTER UPDATE ON billing_invoice DEFERRABLE
  INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.state = 'final')
  EXECUTE FUNCTION billing_final_adds_up();
ALTER TABLE billing_invoice
  ENABLE ALWAYS TRIGGER billing_invoice_refuses_update,
  ENABLE ALWAYS TRIGGER billing_invoice_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_invoice_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_invoice_refuses_insert,
  ENABLE ALWAYS TRIGGER billing_invoice_adds_up;

CREATE TRIGGER billing_invoiceline_keeps_final BEFORE INSERT OR UPDATE OR DELETE ON
  billing_invoiceline FOR EACH ROW EXECUTE FUNCTION billing_keep_final_lines();
CREATE TRIGGER billing_invoiceline_refuses_truncate BEFORE TRUNCATE ON billing_invoiceline
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('invoice lines are never truncated');
ALTER TABLE billing_invoiceline
  ENABLE ALWAYS TRIGGER billing_invoiceline_keeps_final,
  ENABLE ALWAYS TRIGGER billing_invoiceline_refuses_truncate;

CREATE TRIGGER billing_invoiceseries_refuses_update BEFORE UPDATE ON billing_invoiceseries
  FOR EACH ROW WHEN (OLD.code <> NEW.code OR NEW.next_number <> OLD.next_number + 1)
  EXECUTE FUNCTION ledger_refuse('numbers are taken one by one');
CREATE TRIGGER billing_invoiceseries_refuses_delete BEFORE DELETE ON billing_invoiceseries
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a number is never used twice');
CREATE TRIGGER billing_invoiceseries_refuses_truncate BEFORE TRUNCATE ON billing_invoiceseries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a number is never used twice');
CREATE CONSTRAINT TRIGGER billing_invoiceseries_number_is_used AFTER INSERT OR UPDATE ON
  billing_invoiceseries DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION billing_number_is_used();
ALTER TABLE billing_invoiceseries
  ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_update,
  ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_invoiceseries_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_invoiceseries_number_is_used;

CREATE TRIGGER billing_price_refuses_update BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (
    NOT upper_inf(OLD.valid)
    OR (OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid))
    IS DISTINCT FROM (NEW.price_book_id, NEW.size, NEW.price_group, NEW.unit_price,
      lower(NEW.valid)))
  EXECUTE FUNCTION ledger_refuse('a price is closed and succeeded, never edited');
CREATE TRIGGER billing_price_refuses_delete BEFORE DELETE ON billing_price
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a price is closed and succeeded, never deleted');
CREATE TRIGGER billing_price_refuses_truncate BEFORE TRUNCATE ON billing_price
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('prices are never truncated');
CREATE CONSTRAINT TRIGGER billing_price_no_gap AFTER INSERT OR UPDATE ON billing_price DEFERRABLE
  INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_refuse_price_gap();
CREATE TRIGGER billing_price_keeps_charged BEFORE UPDATE ON billing_price
  FOR EACH ROW WHEN (NEW.valid IS DISTINCT FROM OLD.valid)
  EXECUTE FUNCTION billing_keep_charged_hours();
ALTER TABLE billing_price
  ENABLE ALWAYS TRIGGER billing_price_refuses_update,
  ENABLE ALWAYS TRIGGER billing_price_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_price_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_price_no_gap,
  ENABLE ALWAYS TRIGGER billing_price_keeps_charged;

CREATE TRIGGER billing_pricebook_refuses_update BEFORE UPDATE ON billing_pricebook
  FOR EACH ROW WHEN (OLD.currency IS DISTINCT FROM NEW.currency)
  EXECUTE FUNCTION ledger_refuse('a price book keeps its currency');
ALTER TABLE billing_pricebook ENABLE ALWAYS TRIGGER billing_pricebook_refuses_update;

CREATE TRIGGER billing_pricebookassignment_refuses_update BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (
    NOT upper_inf(OLD.valid) OR (OLD.organization_id, OLD.price_book_id, lower(OLD.valid))
    IS DISTINCT FROM (NEW.organization_id, NEW.price_book_id, lower(NEW.valid)))
  EXECUTE FUNCTION ledger_refuse('an assignment is closed and succeeded, never edited');
CREATE TRIGGER billing_pricebookassignment_refuses_delete BEFORE DELETE ON
  billing_pricebookassignment
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an assignment is closed, never deleted');
CREATE TRIGGER billing_pricebookassignment_refuses_truncate BEFORE TRUNCATE ON
  billing_pricebookassignment
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('assignments are never truncated');
CREATE TRIGGER billing_pricebookassignment_keeps_charged BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (NEW.valid IS DISTINCT FROM OLD.valid)
  EXECUTE FUNCTION billing_keep_charged_hours();
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_update,
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_keeps_charged;

REVOKE DELETE, TRUNCATE ON billing_charge, billing_accruedwindow, billing_invoiceseries FROM
  gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON billing_accruedcorrection FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_accruedcorrection_refuses_update ON billing_accruedcorrection;
DROP TRIGGER billing_accruedcorrection_refuses_delete ON billing_accruedcorrection;
DROP TRIGGER billing_accruedcorrection_refuses_truncate ON billing_accruedcorrection;
DROP TRIGGER billing_accruedwindow_refuses_update ON billing_accruedwindow;
DROP TRIGGER billing_accruedwindow_refuses_delete ON billing_accruedwindow;
DROP TRIGGER billing_accruedwindow_refuses_truncate ON billing_accruedwindow;
DROP TRIGGER billing_billingperiod_refuses_update ON billing_billingperiod;
DROP TRIGGER billing_charge_keeps_billed ON billing_charge;
DROP TRIGGER billing_charge_comes_unbilled ON billing_charge;
DROP TRIGGER billing_charge_refuses_delete ON billing_charge;
DROP TRIGGER billing_charge_refuses_truncate ON billing_charge;
DROP TRIGGER billing_charge_refuses_update ON billing_charge;
DROP TRIGGER billing_invoice_refuses_update ON billing_invoice;
DROP TRIGGER billing_invoice_refuses_delete ON billing_invoice;
DROP TRIGGER billing_invoice_refuses_truncate ON billing_invoice;
DROP TRIGGER billing_invoice_refuses_insert ON billing_invoice;
DROP TRIGGER billing_invoice_adds_up ON billing_invoice;
DROP TRIGGER billing_invoiceline_keeps_final ON billing_invoiceline;
DROP TRIGGER billing_invoiceline_refuses_truncate ON billing_invoiceline;
DROP TRIGGER billing_invoiceseries_refuses_update ON billing_invoiceseries;
DROP TRIGGER billing_invoiceseries_refuses_delete ON billing_invoiceseries;
DROP TRIGGER billing_invoiceseries_refuses_truncate ON billing_invoiceseries;
DROP TRIGGER billing_invoiceseries_number_is_used ON billing_invoiceseries;
DROP TRIGGER billing_price_refuses_update ON billing_price;
DROP TRIGGER billing_price_refuses_delete ON billing_price;
DROP TRIGGER billing_price_refuses_truncate ON billing_price;
DROP TRIGGER billing_price_no_gap ON billing_price;
DROP TRIGGER billing_price_keeps_charged ON billing_price;
DROP TRIGGER billing_pricebook_refuses_update ON billing_pricebook;
DROP TRIGGER billing_pricebookassignment_refuses_update ON billing_pricebookassignment;
DROP TRIGGER billing_pricebookassignment_refuses_delete ON billing_pricebookassignment;
DROP TRIGGER billing_pricebookassignment_refuses_truncate ON billing_pricebookassignment;
DROP TRIGGER billing_pricebookassignment_keeps_charged ON billing_pricebookassignment;
GRANT DELETE ON billing_charge, billing_accruedwindow, billing_invoiceseries TO
  gpu_ledger_runtime;
GRANT DELETE ON billing_accruedcorrection TO gpu_ledger_runtime;
