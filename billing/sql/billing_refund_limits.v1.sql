-- No more is paid back of a payment than it has left; services refuse it before.
CREATE FUNCTION billing_return_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM billing_payment p
     WHERE p.id = NEW.origin_id
       AND (p.currency <> NEW.currency OR p.organization_id IS DISTINCT FROM NEW.organization_id
         OR p.amount
            + (SELECT coalesce(sum(r.amount), 0) FROM billing_payment r WHERE r.origin_id = p.id)
            < (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
                WHERE a.payment_id = p.id))) THEN
    RAISE EXCEPTION 'payment % is refused: more is paid back than its origin has left', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Release allocations of the origin first.';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_payment_return_fits AFTER INSERT ON billing_payment
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.origin_id IS NOT NULL)
  EXECUTE FUNCTION billing_return_fits();
ALTER TABLE billing_payment ENABLE ALWAYS TRIGGER billing_payment_return_fits;
-- reverse
DROP TRIGGER billing_payment_return_fits ON billing_payment;
DROP FUNCTION billing_return_fits;
