-- The account of carried balances, and a check of each document that becomes final: it brings forward
-- what the documents of its issuer and recipient have carried by then, and carries all of what is
-- left, or nothing. A credit note takes back no more than its document asked for; the rest comes
-- back to the balance.
INSERT INTO billing_ledgeraccount (code, number, name, kind) VALUES
  ('carried_balance', '1406', 'Carried balances', 'asset');
CREATE FUNCTION billing_carried_adds_up() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  gross numeric := NEW.total + NEW.tax_total;
  due numeric := gross + NEW.brought_forward - NEW.carried_forward;
  balance numeric;
  asked numeric;
  reason text;
BEGIN
  IF NEW.corrects_id IS NULL THEN
    SELECT coalesce(sum(i.carried_forward - i.brought_forward + coalesce(p.amount, 0)), 0)
      INTO balance
      FROM billing_invoice i
      LEFT JOIN billing_payment p ON p.document_id = i.id AND p.kind = 'carried'
     WHERE i.organization_id = NEW.organization_id AND i.currency = NEW.currency
       AND (i.issuer_id, i.recipient_id) IS NOT DISTINCT FROM (NEW.issuer_id, NEW.recipient_id)
       AND i.state = 'final' AND i.id <> NEW.id;
    reason := CASE
      WHEN NEW.brought_forward <> balance THEN
        'it does not bring forward what was carried'
      WHEN NEW.carried_forward NOT IN (0, gross + NEW.brought_forward) THEN
        'it carries a part of what is left'
      WHEN NEW.kind = 'credit_note' AND due > 0 THEN
        'a credit note asks for nothing'
    END;
  ELSIF NEW.kind = 'debit_note' THEN
    reason := CASE WHEN (NEW.brought_forward, NEW.carried_forward) <> (0, 0) THEN
      'a debit note carries nothing' END;
  ELSE
    SELECT c.total + c.tax_total + c.brought_forward - c.carried_forward
           + (SELECT coalesce(sum(n.total + n.tax_total + n.brought_forward - n.carried_forward), 0)
                FROM billing_invoice n
               WHERE n.corrects_id = c.id AND n.kind = 'credit_note' AND n.state = 'final'
                 AND n.id <> NEW.id)
      INTO asked FROM billing_invoice c WHERE c.id = NEW.corrects_id;
    reason := CASE WHEN due <> greatest(gross, -greatest(asked, 0)) OR NEW.brought_forward <> 0 THEN
      'it takes back another amount than its document asked for' END;
  END IF;
  reason := coalesce(reason, CASE
    WHEN (coalesce((NEW.document #>> '{carried,brought_forward}')::numeric, 0),
          coalesce((NEW.document #>> '{carried,carried_forward}')::numeric, 0),
          coalesce((NEW.document #>> '{carried,amount_due}')::numeric, gross))
         IS DISTINCT FROM (NEW.brought_forward, NEW.carried_forward, due) THEN
      'it shows something else than is carried'
  END);
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'invoice % cannot become final: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Draft it again.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_invoice_carried_adds_up AFTER INSERT OR UPDATE ON billing_invoice
  FOR EACH ROW WHEN (NEW.state = 'final') EXECUTE FUNCTION billing_carried_adds_up();
ALTER TABLE billing_invoice ENABLE ALWAYS TRIGGER billing_invoice_carried_adds_up;
-- reverse
DROP TRIGGER billing_invoice_carried_adds_up ON billing_invoice;
DROP FUNCTION billing_carried_adds_up;
DELETE FROM billing_ledgeraccount WHERE code = 'carried_balance';
