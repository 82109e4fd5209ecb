-- A payment without an organization gets one, and one that nothing is allocated or paid back of
-- loses it; everything else of a payment stays.
DROP TRIGGER billing_payment_refuses_update ON billing_payment;
CREATE TRIGGER billing_payment_refuses_update BEFORE UPDATE ON billing_payment
  FOR EACH ROW WHEN (
    OLD.organization_id IS NOT NULL AND NEW.organization_id IS NOT NULL
    OR to_jsonb(OLD) - 'organization_id' <> to_jsonb(NEW) - 'organization_id')
  EXECUTE FUNCTION ledger_refuse('a payment is reversed or refunded by another one');
CREATE FUNCTION billing_payment_keeps_payer() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF OLD.kind <> 'receipt'
     OR EXISTS (SELECT FROM billing_payment r WHERE r.origin_id = OLD.id)
     OR (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
          WHERE a.payment_id = OLD.id) <> 0 THEN
    RAISE EXCEPTION 'payment % keeps its organization', OLD.id
      USING ERRCODE = 'restrict_violation', HINT = 'Release its allocations first.';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER billing_payment_keeps_payer BEFORE UPDATE ON billing_payment
  FOR EACH ROW WHEN (OLD.organization_id IS NOT NULL AND NEW.organization_id IS NULL)
  EXECUTE FUNCTION billing_payment_keeps_payer();
ALTER TABLE billing_payment
  ENABLE ALWAYS TRIGGER billing_payment_refuses_update,
  ENABLE ALWAYS TRIGGER billing_payment_keeps_payer;
-- reverse
DROP TRIGGER billing_payment_keeps_payer ON billing_payment;
DROP FUNCTION billing_payment_keeps_payer;
DROP TRIGGER billing_payment_refuses_update ON billing_payment;
CREATE TRIGGER billing_payment_refuses_update BEFORE UPDATE ON billing_payment
  FOR EACH ROW WHEN (
    OLD.organization_id IS NOT NULL
    OR to_jsonb(OLD) - 'organization_id' <> to_jsonb(NEW) - 'organization_id')
  EXECUTE FUNCTION ledger_refuse('a payment is reversed or refunded by another one');
ALTER TABLE billing_payment ENABLE ALWAYS TRIGGER billing_payment_refuses_update;
