-- What is written off of a document takes no payment.
CREATE OR REPLACE FUNCTION billing_allocation_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  SELECT CASE
    WHEN NOT i.is_owed THEN
      'what it settles is not a final invoice or debit note, or an opening balance that is owed'
    WHEN (i.organization_id, i.currency) IS DISTINCT FROM (p.organization_id, p.currency) THEN
      'payment and document are of different organizations or currencies'
    WHEN p.amount + (SELECT coalesce(sum(r.amount), 0) FROM billing_payment r
                      WHERE r.origin_id = p.id)
         < (SELECT sum(a.amount) FROM billing_paymentallocation a WHERE a.payment_id = p.id) THEN
      'it is more than is left of the payment'
    WHEN NEW.amount > 0 AND i.owed
         < (SELECT sum(a.amount) FROM billing_paymentallocation a
             WHERE a.document_id = NEW.document_id
                OR a.opening_balance_id = NEW.opening_balance_id) THEN
      'it is more than the document leaves open'
    WHEN NEW.releases_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_paymentallocation r
       WHERE r.id = NEW.releases_id
         AND (r.payment_id, r.document_id, r.opening_balance_id, r.amount)
             IS NOT DISTINCT FROM (NEW.payment_id, NEW.document_id, NEW.opening_balance_id,
                                   -NEW.amount)) THEN
      'it is not what it releases'
  END INTO reason
    FROM billing_payment p, (
      SELECT d.organization_id, d.currency,
             d.state = 'final' AND d.kind IN ('invoice', 'debit_note') AS is_owed,
             d.total + d.tax_total + d.brought_forward - d.carried_forward
             + (SELECT coalesce(sum(n.total + n.tax_total + n.brought_forward - n.carried_forward), 0)
                  FROM billing_invoice n
                 WHERE n.corrects_id = d.id AND n.state = 'final' AND n.kind = 'credit_note')
             - (SELECT coalesce(sum(w.amount), 0) FROM billing_writeoff w
                 WHERE w.document_id = d.id AND w.state = 'posted')
             AS owed
        FROM billing_invoice d WHERE d.id = NEW.document_id
       UNION ALL
      SELECT b.organization_id, b.currency, b.amount > 0, b.amount
        FROM billing_openingbalance b WHERE b.id = NEW.opening_balance_id) i
   WHERE p.id = NEW.payment_id;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'allocation % is refused: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Allocate at most what is left on both sides.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
-- Invoices, debit notes and opening balances are paid; what is due of a document is lowered by its
-- credit notes only.
CREATE OR REPLACE FUNCTION billing_allocation_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  SELECT CASE
    WHEN NOT i.is_owed THEN
      'what it settles is not a final invoice or debit note, or an opening balance that is owed'
    WHEN (i.organization_id, i.currency) IS DISTINCT FROM (p.organization_id, p.currency) THEN
      'payment and document are of different organizations or currencies'
    WHEN p.amount + (SELECT coalesce(sum(r.amount), 0) FROM billing_payment r
                      WHERE r.origin_id = p.id)
         < (SELECT sum(a.amount) FROM billing_paymentallocation a WHERE a.payment_id = p.id) THEN
      'it is more than is left of the payment'
    WHEN NEW.amount > 0 AND i.owed
         < (SELECT sum(a.amount) FROM billing_paymentallocation a
             WHERE a.document_id = NEW.document_id
                OR a.opening_balance_id = NEW.opening_balance_id) THEN
      'it is more than the document leaves open'
    WHEN NEW.releases_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_paymentallocation r
       WHERE r.id = NEW.releases_id
         AND (r.payment_id, r.document_id, r.opening_balance_id, r.amount)
             IS NOT DISTINCT FROM (NEW.payment_id, NEW.document_id, NEW.opening_balance_id,
                                   -NEW.amount)) THEN
      'it is not what it releases'
  END INTO reason
    FROM billing_payment p, (
      SELECT d.organization_id, d.currency,
             d.state = 'final' AND d.kind IN ('invoice', 'debit_note') AS is_owed,
             d.total + d.tax_total + d.brought_forward - d.carried_forward
             + (SELECT coalesce(sum(n.total + n.tax_total + n.brought_forward - n.carried_forward), 0)
                  FROM billing_invoice n
                 WHERE n.corrects_id = d.id AND n.state = 'final' AND n.kind = 'credit_note')
             AS owed
        FROM billing_invoice d WHERE d.id = NEW.document_id
       UNION ALL
      SELECT b.organization_id, b.currency, b.amount > 0, b.amount
        FROM billing_openingbalance b WHERE b.id = NEW.opening_balance_id) i
   WHERE p.id = NEW.payment_id;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'allocation % is refused: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Allocate at most what is left on both sides.';
  END IF;
  RETURN NULL;
END $$;
