-- Payments, allocations and due dates are append-only; only an organization is added once. No more
-- is allocated than a payment has and a document leaves open. Services lock the organization first.
CREATE TRIGGER billing_duedate_refuses_update BEFORE UPDATE ON billing_duedate
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a due date stays');
CREATE TRIGGER billing_duedate_refuses_delete BEFORE DELETE ON billing_duedate
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a due date stays');
CREATE TRIGGER billing_duedate_refuses_truncate BEFORE TRUNCATE ON billing_duedate
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a due date stays');
ALTER TABLE billing_duedate
  ENABLE ALWAYS TRIGGER billing_duedate_refuses_update,
  ENABLE ALWAYS TRIGGER billing_duedate_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_duedate_refuses_truncate;
CREATE TRIGGER billing_payment_refuses_update BEFORE UPDATE ON billing_payment
  FOR EACH ROW WHEN (
    OLD.organization_id IS NOT NULL
    OR to_jsonb(OLD) - 'organization_id' <> to_jsonb(NEW) - 'organization_id')
  EXECUTE FUNCTION ledger_refuse('a payment is reversed or refunded by another one');
CREATE TRIGGER billing_payment_refuses_delete BEFORE DELETE ON billing_payment
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a payment is reversed or refunded by another one');
CREATE TRIGGER billing_payment_refuses_truncate BEFORE TRUNCATE ON billing_payment
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a payment is reversed or refunded by another one');
ALTER TABLE billing_payment
  ENABLE ALWAYS TRIGGER billing_payment_refuses_update,
  ENABLE ALWAYS TRIGGER billing_payment_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_payment_refuses_truncate;
CREATE TRIGGER billing_paymentallocation_refuses_update BEFORE UPDATE ON billing_paymentallocation
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an allocation is released by another one');
CREATE TRIGGER billing_paymentallocation_refuses_delete BEFORE DELETE ON billing_paymentallocation
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an allocation is released by another one');
CREATE TRIGGER billing_paymentallocation_refuses_truncate BEFORE TRUNCATE ON billing_paymentallocation
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('an allocation is released by another one');
ALTER TABLE billing_paymentallocation
  ENABLE ALWAYS TRIGGER billing_paymentallocation_refuses_update,
  ENABLE ALWAYS TRIGGER billing_paymentallocation_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_paymentallocation_refuses_truncate;

CREATE FUNCTION billing_allocation_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  SELECT CASE
    WHEN d.state <> 'final' OR d.kind <> 'invoice' THEN 'its document is not a final invoice'
    WHEN (d.organization_id, d.currency) IS DISTINCT FROM (p.organization_id, p.currency) THEN
      'payment and document are of different organizations or currencies'
    WHEN p.amount + (SELECT coalesce(sum(r.amount), 0) FROM billing_payment r
                      WHERE r.origin_id = p.id)
         < (SELECT sum(a.amount) FROM billing_paymentallocation a WHERE a.payment_id = p.id) THEN
      'it is more than is left of the payment'
    WHEN NEW.amount > 0 AND d.total + d.tax_total
         + (SELECT coalesce(sum(n.total + n.tax_total), 0) FROM billing_invoice n
             WHERE n.corrects_id = d.id AND n.state = 'final')
         < (SELECT sum(a.amount) FROM billing_paymentallocation a WHERE a.document_id = d.id) THEN
      'it is more than the document leaves open'
    WHEN NEW.releases_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_paymentallocation r
       WHERE (r.id, r.payment_id, r.document_id, r.amount)
             = (NEW.releases_id, NEW.payment_id, NEW.document_id, -NEW.amount)) THEN
      'it is not what it releases'
  END INTO reason
    FROM billing_payment p, billing_invoice d
   WHERE (p.id, d.id) = (NEW.payment_id, NEW.document_id);
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'allocation % is refused: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Allocate at most what is left on both sides.';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_paymentallocation_fits AFTER INSERT ON billing_paymentallocation
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_allocation_fits();
ALTER TABLE billing_paymentallocation ENABLE ALWAYS TRIGGER billing_paymentallocation_fits;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_duedate, billing_paymentallocation
  FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON billing_payment FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_paymentallocation_fits ON billing_paymentallocation;
DROP FUNCTION billing_allocation_fits;
DROP TRIGGER billing_paymentallocation_refuses_truncate ON billing_paymentallocation;
DROP TRIGGER billing_paymentallocation_refuses_delete ON billing_paymentallocation;
DROP TRIGGER billing_paymentallocation_refuses_update ON billing_paymentallocation;
DROP TRIGGER billing_payment_refuses_truncate ON billing_payment;
DROP TRIGGER billing_payment_refuses_delete ON billing_payment;
DROP TRIGGER billing_payment_refuses_update ON billing_payment;
DROP TRIGGER billing_duedate_refuses_truncate ON billing_duedate;
DROP TRIGGER billing_duedate_refuses_delete ON billing_duedate;
DROP TRIGGER billing_duedate_refuses_update ON billing_duedate;
