-- The chart of accounts, and triggers that keep the journal: balanced, append-only, and none of it
-- in a closed month. Numbers of accounts are those of the German chart SKR03 where it has one; that
-- of revenue is one DATEV computes no tax from, since tax is posted by itself.
INSERT INTO billing_ledgeraccount (code, number, name, kind) VALUES
  ('bank', '1200', 'Bank', 'asset'),
  ('clearing', '1370', 'Payments of unknown payers', 'liability'),
  ('receivables', '1400', 'Receivables', 'asset'),
  ('unbilled_receivables', '1405', 'Unbilled receivables', 'asset'),
  ('customer_credit', '1710', 'Customer credit', 'liability'),
  ('tax_payable', '1776', 'Tax payable', 'liability'),
  ('bad_debt', '2400', 'Bad debt', 'expense'),
  ('rounding', '2650', 'Rounding differences', 'income'),
  ('revenue', '8200', 'Revenue', 'income');
INSERT INTO billing_accountingmonth (id, label, closed_at, closed_by)
VALUES (gen_random_uuid(), '0000-00', '1970-01-01T00:00:00Z', 'installation');
ALTER TABLE billing_accountingmonth ADD CONSTRAINT accounting_month_is_a_month
  CHECK (label = '0000-00' OR label ~ '^(19|20|21)[0-9]{2}-(0[1-9]|1[0-2])$');

CREATE FUNCTION billing_entry_is_balanced() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  entry uuid := CASE TG_TABLE_NAME WHEN 'billing_posting'
                     THEN to_jsonb(NEW) ->> 'entry_id' ELSE to_jsonb(NEW) ->> 'id' END;
  added numeric;
  postings bigint;
BEGIN
  SELECT coalesce(sum(amount), 0), count(*) INTO added, postings
    FROM billing_posting WHERE entry_id = entry;
  IF added <> 0 OR postings < 2 THEN
    RAISE EXCEPTION 'journal entry % has % postings that add up to %', entry, postings, added
      USING ERRCODE = 'restrict_violation',
            HINT = 'Post debit and credit of one event in one transaction.';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_journalentry_is_balanced AFTER INSERT ON billing_journalentry
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_entry_is_balanced();
CREATE CONSTRAINT TRIGGER billing_posting_is_balanced AFTER INSERT ON billing_posting
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_entry_is_balanced();

-- Postings wait for a closing that is under way, and a closing for postings.
CREATE FUNCTION billing_month_is_open() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE closed text;
BEGIN
  PERFORM FROM billing_accountingmonth WHERE label = '0000-00' FOR SHARE;
  SELECT max(label) INTO closed FROM billing_accountingmonth;
  IF EXISTS (SELECT FROM new_rows WHERE to_char(posting_on, 'YYYY-MM') <= closed) THEN
    RAISE EXCEPTION 'the accounting month % is closed', closed
      USING ERRCODE = 'restrict_violation', HINT = 'Post it to the first open month.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_journalentry_month_is_open AFTER INSERT ON billing_journalentry
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION billing_month_is_open();

CREATE TRIGGER billing_journalentry_refuses_update BEFORE UPDATE ON billing_journalentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an entry is corrected by another one');
CREATE TRIGGER billing_journalentry_refuses_delete BEFORE DELETE ON billing_journalentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an entry is corrected by another one');
CREATE TRIGGER billing_journalentry_refuses_truncate BEFORE TRUNCATE ON billing_journalentry
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('the journal is never truncated');
ALTER TABLE billing_journalentry
  ENABLE ALWAYS TRIGGER billing_journalentry_is_balanced,
  ENABLE ALWAYS TRIGGER billing_journalentry_month_is_open,
  ENABLE ALWAYS TRIGGER billing_journalentry_refuses_update,
  ENABLE ALWAYS TRIGGER billing_journalentry_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_journalentry_refuses_truncate;

CREATE TRIGGER billing_posting_refuses_update BEFORE UPDATE ON billing_posting
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a posting is corrected by another entry');
CREATE TRIGGER billing_posting_refuses_delete BEFORE DELETE ON billing_posting
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a posting is corrected by another entry');
CREATE TRIGGER billing_posting_refuses_truncate BEFORE TRUNCATE ON billing_posting
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('the journal is never truncated');
ALTER TABLE billing_posting
  ENABLE ALWAYS TRIGGER billing_posting_is_balanced,
  ENABLE ALWAYS TRIGGER billing_posting_refuses_update,
  ENABLE ALWAYS TRIGGER billing_posting_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_posting_refuses_truncate;

CREATE TRIGGER billing_accountingmonth_refuses_update BEFORE UPDATE ON billing_accountingmonth
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a closed month stays closed');
CREATE TRIGGER billing_accountingmonth_refuses_delete BEFORE DELETE ON billing_accountingmonth
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a closed month stays closed');
CREATE TRIGGER billing_accountingmonth_refuses_truncate BEFORE TRUNCATE ON billing_accountingmonth
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a closed month stays closed');
ALTER TABLE billing_accountingmonth
  ENABLE ALWAYS TRIGGER billing_accountingmonth_refuses_update,
  ENABLE ALWAYS TRIGGER billing_accountingmonth_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_accountingmonth_refuses_truncate;

REVOKE UPDATE, DELETE, TRUNCATE ON billing_journalentry, billing_posting FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON billing_accountingmonth FROM gpu_ledger_runtime;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON billing_ledgeraccount FROM gpu_ledger_runtime;
-- reverse
ALTER TABLE billing_accountingmonth DROP CONSTRAINT accounting_month_is_a_month;
DROP TRIGGER billing_accountingmonth_refuses_truncate ON billing_accountingmonth;
DROP TRIGGER billing_accountingmonth_refuses_delete ON billing_accountingmonth;
DROP TRIGGER billing_accountingmonth_refuses_update ON billing_accountingmonth;
DROP TRIGGER billing_posting_refuses_truncate ON billing_posting;
DROP TRIGGER billing_posting_refuses_delete ON billing_posting;
DROP TRIGGER billing_posting_refuses_update ON billing_posting;
DROP TRIGGER billing_journalentry_refuses_truncate ON billing_journalentry;
DROP TRIGGER billing_journalentry_refuses_delete ON billing_journalentry;
DROP TRIGGER billing_journalentry_refuses_update ON billing_journalentry;
DROP TRIGGER billing_journalentry_month_is_open ON billing_journalentry;
DROP TRIGGER billing_posting_is_balanced ON billing_posting;
DROP TRIGGER billing_journalentry_is_balanced ON billing_journalentry;
DROP FUNCTION billing_month_is_open;
DROP FUNCTION billing_entry_is_balanced;
