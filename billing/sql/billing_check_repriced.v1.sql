-- Charges of a repricing belong to one of their organization that is not decided yet, and add up to
-- nothing by key: what they take away at one price they charge at another.
CREATE OR REPLACE FUNCTION billing_check_repriced() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT r.repricing_id INTO offender
    FROM (SELECT DISTINCT repricing_id, organization_id FROM new_rows
           WHERE repricing_id IS NOT NULL) r
   WHERE NOT EXISTS (
     SELECT FROM billing_repricing p
      WHERE (p.id, p.organization_id, p.state) = (r.repricing_id, r.organization_id, 'proposed'))
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % is not there, or is decided',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation', HINT = 'Reprice the month by the service.';
  END IF;
  SELECT r.repricing_id INTO offender
    FROM new_rows r WHERE r.repricing_id IS NOT NULL
   GROUP BY r.repricing_id, r.window_id, r.project_id, r.owner, r.size, r.price_group,
            r.correction_id
  HAVING sum(r.unit_seconds) <> 0
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on charges is refused: repricing % changes quantities',
      offender.repricing_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'Charge as many unit-seconds anew as are reversed.';
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER billing_charge_is_repriced AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_check_repriced();
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_is_repriced;

CREATE TRIGGER billing_charge_keeps_repricing BEFORE UPDATE ON billing_charge
  FOR EACH ROW WHEN (OLD.repricing_id IS DISTINCT FROM NEW.repricing_id)
  EXECUTE FUNCTION ledger_refuse('only the link to a line changes');
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_keeps_repricing;

CREATE TRIGGER billing_repricing_refuses_update BEFORE UPDATE ON billing_repricing
  FOR EACH ROW WHEN (
    OLD.state <> 'proposed'
    OR (OLD.id, OLD.organization_id, OLD.period_id, OLD.reason, OLD.changes, OLD.currency,
      OLD.before, OLD.after, OLD.requested_by, OLD.requested_by_id, OLD.requested_at)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.period_id, NEW.reason, NEW.changes,
      NEW.currency, NEW.before, NEW.after, NEW.requested_by, NEW.requested_by_id,
      NEW.requested_at))
  EXECUTE FUNCTION ledger_refuse('a repricing is decided once');
CREATE TRIGGER billing_repricing_refuses_delete BEFORE DELETE ON billing_repricing
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a repricing is rejected, never deleted');
CREATE TRIGGER billing_repricing_refuses_truncate BEFORE TRUNCATE ON billing_repricing
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('repricings are never truncated');
ALTER TABLE billing_repricing
  ENABLE ALWAYS TRIGGER billing_repricing_refuses_update,
  ENABLE ALWAYS TRIGGER billing_repricing_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_repricing_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_repricing FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_repricing_refuses_truncate ON billing_repricing;
DROP TRIGGER billing_repricing_refuses_delete ON billing_repricing;
DROP TRIGGER billing_repricing_refuses_update ON billing_repricing;
DROP TRIGGER billing_charge_keeps_repricing ON billing_charge;
DROP TRIGGER billing_charge_is_repriced ON billing_charge;
DROP FUNCTION billing_check_repriced;
