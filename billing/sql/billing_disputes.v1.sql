-- A dispute is decided once, and keeps what it is of; its lines and messages are never changed.
CREATE FUNCTION billing_dispute_fits() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM billing_invoice d
     WHERE (d.id, d.organization_id, d.currency, d.state)
           = (NEW.document_id, NEW.organization_id, NEW.currency, 'final')
       AND d.kind IN ('invoice', 'debit_note')) THEN
    RAISE EXCEPTION 'dispute % is refused: its document is not a final invoice or debit note', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Open disputes by the service.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_dispute_fits AFTER INSERT ON billing_dispute
  FOR EACH ROW EXECUTE FUNCTION billing_dispute_fits();
-- The draft of a credit note may still be discarded, which takes it from the dispute.
CREATE TRIGGER billing_dispute_refuses_update BEFORE UPDATE ON billing_dispute
  FOR EACH ROW WHEN (
    to_jsonb(OLD) - '{state,decided_by,decided_by_id,decided_at,decision_reason,credit_note_id}'::text[]
      <> to_jsonb(NEW) - '{state,decided_by,decided_by_id,decided_at,decision_reason,credit_note_id}'::text[]
    OR OLD.state <> 'open' AND (
      NEW.credit_note_id IS NOT NULL OR to_jsonb(OLD) - 'credit_note_id' <> to_jsonb(NEW) - 'credit_note_id'))
  EXECUTE FUNCTION ledger_refuse('a dispute is decided once');
CREATE TRIGGER billing_dispute_refuses_delete BEFORE DELETE ON billing_dispute
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a dispute is withdrawn, never deleted');
CREATE TRIGGER billing_dispute_refuses_truncate BEFORE TRUNCATE ON billing_dispute
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('disputes are never truncated');
ALTER TABLE billing_dispute
  ENABLE ALWAYS TRIGGER billing_dispute_fits,
  ENABLE ALWAYS TRIGGER billing_dispute_refuses_update,
  ENABLE ALWAYS TRIGGER billing_dispute_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_dispute_refuses_truncate;
CREATE TRIGGER billing_disputedline_refuses_update BEFORE UPDATE ON billing_disputedline
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what is disputed stays');
CREATE TRIGGER billing_disputedline_refuses_delete BEFORE DELETE ON billing_disputedline
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what is disputed stays');
CREATE TRIGGER billing_disputedline_refuses_truncate BEFORE TRUNCATE ON billing_disputedline
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what is disputed stays');
ALTER TABLE billing_disputedline
  ENABLE ALWAYS TRIGGER billing_disputedline_refuses_update,
  ENABLE ALWAYS TRIGGER billing_disputedline_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_disputedline_refuses_truncate;
CREATE TRIGGER billing_disputemessage_refuses_update BEFORE UPDATE ON billing_disputemessage
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a message stays as it was written');
CREATE TRIGGER billing_disputemessage_refuses_delete BEFORE DELETE ON billing_disputemessage
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a message stays as it was written');
CREATE TRIGGER billing_disputemessage_refuses_truncate BEFORE TRUNCATE ON billing_disputemessage
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a message stays as it was written');
ALTER TABLE billing_disputemessage
  ENABLE ALWAYS TRIGGER billing_disputemessage_refuses_update,
  ENABLE ALWAYS TRIGGER billing_disputemessage_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_disputemessage_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_dispute FROM gpu_ledger_runtime;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_disputedline, billing_disputemessage
  FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_disputemessage_refuses_truncate ON billing_disputemessage;
DROP TRIGGER billing_disputemessage_refuses_delete ON billing_disputemessage;
DROP TRIGGER billing_disputemessage_refuses_update ON billing_disputemessage;
DROP TRIGGER billing_disputedline_refuses_truncate ON billing_disputedline;
DROP TRIGGER billing_disputedline_refuses_delete ON billing_disputedline;
DROP TRIGGER billing_disputedline_refuses_update ON billing_disputedline;
DROP TRIGGER billing_dispute_refuses_truncate ON billing_dispute;
DROP TRIGGER billing_dispute_refuses_delete ON billing_dispute;
DROP TRIGGER billing_dispute_refuses_update ON billing_dispute;
DROP TRIGGER billing_dispute_fits ON billing_dispute;
DROP FUNCTION billing_dispute_fits;
