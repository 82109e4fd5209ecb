-- A file is of a final document, is what its digest says, and stays as it was rendered first.
CREATE FUNCTION billing_file_is_of_final() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  PERFORM FROM billing_invoice WHERE id = NEW.document_id AND state = 'final';
  IF NOT FOUND THEN
    RAISE EXCEPTION 'a file is stored of a final document only'
      USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NEW;
END
$$;
ALTER TABLE billing_documentfile ADD CONSTRAINT billing_documentfile_digest
  CHECK (sha256 = encode(sha256(content), 'hex'));
CREATE TRIGGER billing_documentfile_is_of_final BEFORE INSERT ON billing_documentfile
  FOR EACH ROW EXECUTE FUNCTION billing_file_is_of_final();
CREATE TRIGGER billing_documentfile_refuses_update BEFORE UPDATE ON billing_documentfile
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a file stays as it was rendered first');
CREATE TRIGGER billing_documentfile_refuses_delete BEFORE DELETE ON billing_documentfile
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a file stays as it was rendered first');
CREATE TRIGGER billing_documentfile_refuses_truncate BEFORE TRUNCATE ON billing_documentfile
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a file stays as it was rendered first');
ALTER TABLE billing_documentfile
  ENABLE ALWAYS TRIGGER billing_documentfile_is_of_final,
  ENABLE ALWAYS TRIGGER billing_documentfile_refuses_update,
  ENABLE ALWAYS TRIGGER billing_documentfile_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_documentfile_refuses_truncate;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_documentfile FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_documentfile_refuses_truncate ON billing_documentfile;
DROP TRIGGER billing_documentfile_refuses_delete ON billing_documentfile;
DROP TRIGGER billing_documentfile_refuses_update ON billing_documentfile;
DROP TRIGGER billing_documentfile_is_of_final ON billing_documentfile;
ALTER TABLE billing_documentfile DROP CONSTRAINT billing_documentfile_digest;
DROP FUNCTION billing_file_is_of_final();
