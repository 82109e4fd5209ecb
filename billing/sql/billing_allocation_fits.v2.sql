-- Invoices and debit notes are paid; what is left of one is lowered by its credit notes only.
CREATE OR REPLACE FUNCTION billing_allocation_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  SELECT CASE
    WHEN d.state <> 'final' OR d.kind NOT IN ('invoice', 'debit_note') THEN
      'its document is not a final invoice or debit note'
    WHEN (d.organization_id, d.currency) IS DISTINCT FROM (p.organization_id, p.currency) THEN
      'payment and document are of different organizations or currencies'
    WHEN p.amount + (SELECT coalesce(sum(r.amount), 0) FROM billing_payment r
                      WHERE r.origin_id = p.id)
         < (SELECT sum(a.amount) FROM billing_paymentallocation a WHERE a.payment_id = p.id) THEN
      'it is more than is left of the payment'
    WHEN NEW.amount > 0 AND d.total + d.tax_total
         + (SELECT coalesce(sum(n.total + n.tax_total), 0) FROM billing_invoice n
             WHERE n.corrects_id = d.id AND n.state = 'final' AND n.kind = 'credit_note')
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
-- reverse
CREATE OR REPLACE FUNCTION billing_allocation_fits() RETURNS trigger LANGUAGE plpgsql
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
