-- Batches of the journal are never changed, and numbered one by one.
CREATE TRIGGER billing_journalbatch_refuses_update BEFORE UPDATE ON billing_journalbatch
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a batch is exported as it is');
CREATE TRIGGER billing_journalbatch_refuses_delete BEFORE DELETE ON billing_journalbatch
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a batch is exported as it is');
CREATE TRIGGER billing_journalbatch_refuses_truncate BEFORE TRUNCATE ON billing_journalbatch
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a batch is exported as it is');
ALTER TABLE billing_journalbatch
  ENABLE ALWAYS TRIGGER billing_journalbatch_refuses_update,
  ENABLE ALWAYS TRIGGER billing_journalbatch_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_journalbatch_refuses_truncate;
CREATE TRIGGER billing_batchedentry_refuses_update BEFORE UPDATE ON billing_batchedentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an entry stays in its batch');
CREATE TRIGGER billing_batchedentry_refuses_delete BEFORE DELETE ON billing_batchedentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an entry stays in its batch');
CREATE TRIGGER billing_batchedentry_refuses_truncate BEFORE TRUNCATE ON billing_batchedentry
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('an entry stays in its batch');
ALTER TABLE billing_batchedentry
  ENABLE ALWAYS TRIGGER billing_batchedentry_refuses_update,
  ENABLE ALWAYS TRIGGER billing_batchedentry_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_batchedentry_refuses_truncate;
CREATE FUNCTION billing_batch_is_next() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NEW.number <> 1 + (SELECT coalesce(max(number), 0) FROM billing_journalbatch)
     OR NEW.content_sha256 <> encode(sha256(convert_to(NEW.content, 'UTF8')), 'hex') THEN
    RAISE EXCEPTION 'batch % is not the next, or its digest not that of its text', NEW.number
      USING ERRCODE = 'restrict_violation', HINT = 'Export it: that numbers it.';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER billing_journalbatch_is_next BEFORE INSERT ON billing_journalbatch
  FOR EACH ROW EXECUTE FUNCTION billing_batch_is_next();
ALTER TABLE billing_journalbatch ENABLE ALWAYS TRIGGER billing_journalbatch_is_next;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_journalbatch, billing_batchedentry
  FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_journalbatch_is_next ON billing_journalbatch;
DROP FUNCTION billing_batch_is_next;
DROP TRIGGER billing_batchedentry_refuses_truncate ON billing_batchedentry;
DROP TRIGGER billing_batchedentry_refuses_delete ON billing_batchedentry;
DROP TRIGGER billing_batchedentry_refuses_update ON billing_batchedentry;
DROP TRIGGER billing_journalbatch_refuses_truncate ON billing_journalbatch;
DROP TRIGGER billing_journalbatch_refuses_delete ON billing_journalbatch;
DROP TRIGGER billing_journalbatch_refuses_update ON billing_journalbatch;
