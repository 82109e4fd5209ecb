-- A write-off is decided once and reversed once, and keeps what it is of. No more is written off
-- than a document leaves open. Services lock the organization first.
CREATE FUNCTION billing_write_off_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  SELECT CASE
    WHEN d.state <> 'final' OR d.kind NOT IN ('invoice', 'debit_note') THEN
      'its document is not a final invoice or debit note'
    WHEN (d.organization_id, d.currency) <> (NEW.organization_id, NEW.currency) THEN
      'its document is of another organization or currency'
    WHEN NEW.state = 'posted'
         AND d.total + d.tax_total + d.brought_forward - d.carried_forward
         + (SELECT coalesce(sum(n.total + n.tax_total + n.brought_forward - n.carried_forward), 0)
              FROM billing_invoice n
             WHERE n.corrects_id = d.id AND n.state = 'final' AND n.kind = 'credit_note')
         - (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
             WHERE a.document_id = d.id)
         < (SELECT sum(w.amount) FROM billing_writeoff w
             WHERE w.document_id = d.id AND w.state = 'posted') THEN
      'it is more than the document leaves open'
  END INTO reason
    FROM billing_invoice d WHERE d.id = NEW.document_id;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'write-off % is refused: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Write off at most what is open.';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_writeoff_fits AFTER INSERT OR UPDATE ON billing_writeoff
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_write_off_fits();
CREATE TRIGGER billing_writeoff_refuses_update BEFORE UPDATE ON billing_writeoff
  FOR EACH ROW WHEN (
    (OLD.state, NEW.state) NOT IN
      (('proposed', 'posted'), ('proposed', 'rejected'), ('posted', 'reversed'))
    OR to_jsonb(OLD) - '{state,decided_by,decided_by_id,decided_at,decision_note,reversed_by,reversed_at,reversal_reason}'::text[]
      <> to_jsonb(NEW) - '{state,decided_by,decided_by_id,decided_at,decision_note,reversed_by,reversed_at,reversal_reason}'::text[]
    OR OLD.state = 'posted'
      AND (OLD.decided_by, OLD.decided_by_id, OLD.decided_at, OLD.decision_note)
       <> (NEW.decided_by, NEW.decided_by_id, NEW.decided_at, NEW.decision_note))
  EXECUTE FUNCTION ledger_refuse('a write-off is decided once and reversed once');
CREATE TRIGGER billing_writeoff_refuses_delete BEFORE DELETE ON billing_writeoff
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a write-off is reversed, never deleted');
CREATE TRIGGER billing_writeoff_refuses_truncate BEFORE TRUNCATE ON billing_writeoff
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('write-offs are never truncated');
ALTER TABLE billing_writeoff
  ENABLE ALWAYS TRIGGER billing_writeoff_fits,
  ENABLE ALWAYS TRIGGER billing_writeoff_refuses_update,
  ENABLE ALWAYS TRIGGER billing_writeoff_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_writeoff_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_writeoff FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_writeoff_refuses_truncate ON billing_writeoff;
DROP TRIGGER billing_writeoff_refuses_delete ON billing_writeoff;
DROP TRIGGER billing_writeoff_refuses_update ON billing_writeoff;
DROP TRIGGER billing_writeoff_fits ON billing_writeoff;
DROP FUNCTION billing_write_off_fits;
