-- Charges are stored by month of their hour, so that indexes stay small and a month is vacuumed by
-- itself. None may be detached: late usage is compared with the charges of its hour. The keys
-- have had window_start and organization since 0004.
ALTER TABLE billing_charge RENAME TO billing_charge_whole;
CREATE TABLE billing_charge (
  LIKE billing_charge_whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING IDENTITY
) PARTITION BY RANGE (window_start);
-- The runtime role owns no table, so accrual calls this function for hours of a month without a
-- partition. The month is attached, not created in place, so that no reader of charges waits. No
-- role has rights on a partition itself.
CREATE OR REPLACE FUNCTION billing_ensure_charge_partitions(hours timestamptz[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing_ensure_charge_partitions'));
  FOR first_day IN
    SELECT DISTINCT date_trunc('month', hour, 'UTC') FROM unnest(hours) AS hour ORDER BY 1
  LOOP
    IF first_day NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
      RAISE EXCEPTION 'the month of % is more than 10 years from now', first_day
        USING ERRCODE = 'restrict_violation';
    END IF;
    name := 'billing_charge_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    EXECUTE format(
      'CREATE TABLE %I (LIKE billing_charge INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format('REVOKE ALL ON %I FROM gpu_ledger_runtime', name);
    EXECUTE format(
      'ALTER TABLE billing_charge ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
      first_day, (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
      EXECUTE FUNCTION ledger_refuse(''charges are never truncated'')', name || '_truncate', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
REVOKE EXECUTE ON FUNCTION billing_ensure_charge_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing_ensure_charge_partitions TO gpu_ledger_runtime;
SELECT billing_ensure_charge_partitions(array_agg(DISTINCT window_start)) FROM billing_charge_whole
HAVING count(*) > 0;
INSERT INTO billing_charge SELECT * FROM billing_charge_whole;
SELECT setval(pg_get_serial_sequence('billing_charge', 'id'), coalesce(max(id), 0) + 1, false)
  FROM billing_charge_whole;
DROP TABLE billing_charge_whole;
ALTER SEQUENCE billing_charge_id_seq1 RENAME TO billing_charge_id_seq;
ALTER TABLE billing_charge
  ADD CONSTRAINT billing_charge_pkey PRIMARY KEY (id, window_start, organization_id),
  ADD CONSTRAINT charge_unique UNIQUE NULLS NOT DISTINCT (window_id, project_id, owner, size,
    price_group, tier, price_id, correction_id, repricing_id, window_start, organization_id);
CREATE INDEX billing_charge_period_id_ac22f353 ON billing_charge (period_id);
CREATE INDEX billing_charge_price_id_fbc08fcd ON billing_charge (price_id);
CREATE INDEX charge_by_organization ON billing_charge (organization_id, window_start);
CREATE INDEX charge_by_correction ON billing_charge (correction_id)
  WHERE correction_id IS NOT NULL;
CREATE INDEX charge_by_repricing ON billing_charge (repricing_id) WHERE repricing_id IS NOT NULL;
CREATE TRIGGER billing_charge_comes_unbilled AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_posted_charges();
CREATE TRIGGER billing_charge_has_price AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_charge_prices();
CREATE TRIGGER billing_charge_is_repriced AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_repriced();
CREATE TRIGGER billing_charge_refuses_update BEFORE UPDATE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
CREATE TRIGGER billing_charge_refuses_delete BEFORE DELETE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
CREATE TRIGGER billing_charge_refuses_truncate BEFORE TRUNCATE ON billing_charge
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('charges are never truncated');
ALTER TABLE billing_charge
  ENABLE ALWAYS TRIGGER billing_charge_comes_unbilled,
  ENABLE ALWAYS TRIGGER billing_charge_has_price,
  ENABLE ALWAYS TRIGGER billing_charge_is_repriced,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_update,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_truncate;
REVOKE ALL ON billing_charge FROM gpu_ledger_runtime;
GRANT SELECT, INSERT ON billing_charge TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION billing_ensure_charge_partitions;
CREATE TABLE billing_charge_whole (
  LIKE billing_charge INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING IDENTITY
);
INSERT INTO billing_charge_whole SELECT * FROM billing_charge;
SELECT setval(pg_get_serial_sequence('billing_charge_whole', 'id'),
              coalesce(max(id), 0) + 1, false) FROM billing_charge_whole;
DROP TABLE billing_charge;
ALTER TABLE billing_charge_whole RENAME TO billing_charge;
ALTER SEQUENCE billing_charge_whole_id_seq RENAME TO billing_charge_id_seq;
ALTER TABLE billing_charge
  ADD CONSTRAINT billing_charge_pkey PRIMARY KEY (id, window_start, organization_id),
  ADD CONSTRAINT charge_unique UNIQUE NULLS NOT DISTINCT (window_id, project_id, owner, size,
    price_group, tier, price_id, correction_id, repricing_id, window_start, organization_id);
CREATE INDEX billing_charge_period_id_ac22f353 ON billing_charge (period_id);
CREATE INDEX billing_charge_price_id_fbc08fcd ON billing_charge (price_id);
CREATE INDEX charge_by_organization ON billing_charge (organization_id, window_start);
CREATE INDEX charge_by_correction ON billing_charge (correction_id)
  WHERE correction_id IS NOT NULL;
CREATE INDEX charge_by_repricing ON billing_charge (repricing_id) WHERE repricing_id IS NOT NULL;
CREATE TRIGGER billing_charge_comes_unbilled AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_posted_charges();
CREATE TRIGGER billing_charge_has_price AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_charge_prices();
CREATE TRIGGER billing_charge_is_repriced AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_repriced();
CREATE TRIGGER billing_charge_keeps_repricing BEFORE UPDATE ON billing_charge
  FOR EACH ROW WHEN (OLD.repricing_id IS DISTINCT FROM NEW.repricing_id)
  EXECUTE FUNCTION ledger_refuse('only the link to a line changes');
CREATE TRIGGER billing_charge_refuses_update BEFORE UPDATE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
CREATE TRIGGER billing_charge_refuses_delete BEFORE DELETE ON billing_charge
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a charge is corrected by a new one');
CREATE TRIGGER billing_charge_refuses_truncate BEFORE TRUNCATE ON billing_charge
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('charges are never truncated');
ALTER TABLE billing_charge
  ENABLE ALWAYS TRIGGER billing_charge_comes_unbilled,
  ENABLE ALWAYS TRIGGER billing_charge_has_price,
  ENABLE ALWAYS TRIGGER billing_charge_is_repriced,
  ENABLE ALWAYS TRIGGER billing_charge_keeps_repricing,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_update,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_charge_refuses_truncate;
REVOKE ALL ON billing_charge FROM gpu_ledger_runtime;
GRANT SELECT, INSERT ON billing_charge TO gpu_ledger_runtime;
