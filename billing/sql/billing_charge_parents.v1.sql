-- Charges have no foreign keys: each would be checked once a row, which took more than half of the
-- time of accrual. What they refer to is looked up once for each distinct value of a statement: the
-- price here; cluster, project, organization and period by billing_refuse_posted_charges. None of
-- it can be deleted: usage refers to organization and project, its window to the cluster, and
-- prices and periods refuse it.
CREATE OR REPLACE FUNCTION billing_check_charge_prices() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE missing uuid;
BEGIN
  SELECT r.price_id INTO missing FROM (SELECT DISTINCT price_id FROM new_rows) r
   WHERE NOT EXISTS (SELECT FROM billing_price p WHERE p.id = r.price_id OFFSET 0) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: there is no price %', missing
      USING ERRCODE = 'foreign_key_violation', HINT = 'A charge pins a price of a price book.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_charge_has_price AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_charge_prices();
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_has_price;
CREATE TRIGGER billing_billingperiod_refuses_delete BEFORE DELETE ON billing_billingperiod
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a period is computed once');
CREATE TRIGGER billing_billingperiod_refuses_truncate BEFORE TRUNCATE ON billing_billingperiod
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a period is computed once');
ALTER TABLE billing_billingperiod
  ENABLE ALWAYS TRIGGER billing_billingperiod_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_billingperiod_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_billingperiod FROM gpu_ledger_runtime;
-- reverse
GRANT DELETE ON billing_billingperiod TO gpu_ledger_runtime;
DROP TRIGGER billing_billingperiod_refuses_delete ON billing_billingperiod;
DROP TRIGGER billing_billingperiod_refuses_truncate ON billing_billingperiod;
DROP TRIGGER billing_charge_has_price ON billing_charge;
DROP FUNCTION billing_check_charge_prices;
