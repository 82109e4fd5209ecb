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
-- A posting joins no entry that is exported, or of a closed month.
CREATE FUNCTION billing_posting_is_of_open_entry() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM (SELECT DISTINCT entry_id FROM new_rows) n
      JOIN billing_journalentry e ON e.id = n.entry_id
     WHERE EXISTS (SELECT FROM billing_batchedentry b WHERE b.entry_id = e.id)
        OR to_char(e.posting_on, 'YYYY-MM') <= (SELECT max(label) FROM billing_accountingmonth))
  THEN
    RAISE EXCEPTION 'the entry is exported, or its accounting month closed'
      USING ERRCODE = 'restrict_violation', HINT = 'Post another entry.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_posting_is_of_open_entry AFTER INSERT ON billing_posting
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION billing_posting_is_of_open_entry();
ALTER TABLE billing_posting ENABLE ALWAYS TRIGGER billing_posting_is_of_open_entry;
-- reverse
DROP TRIGGER billing_posting_is_of_open_entry ON billing_posting;
DROP FUNCTION billing_posting_is_of_open_entry;
DROP TRIGGER billing_journalbatch_is_next ON billing_journalbatch;
DROP FUNCTION billing_batch_is_next;
DROP TRIGGER billing_batchedentry_refuses_truncate ON billing_batchedentry;
DROP TRIGGER billing_batchedentry_refuses_delete ON billing_batchedentry;
DROP TRIGGER billing_batchedentry_refuses_update ON billing_batchedentry;
DROP TRIGGER billing_journalbatch_refuses_truncate ON billing_journalbatch;
DROP TRIGGER billing_journalbatch_refuses_delete ON billing_journalbatch;
DROP TRIGGER billing_journalbatch_refuses_update ON billing_journalbatch;
