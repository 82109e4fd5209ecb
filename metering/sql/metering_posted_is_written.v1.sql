-- Checked when the transaction commits: a posted correction has its records.
CREATE OR REPLACE FUNCTION metering_posted_is_written() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM metering_usagerecord u WHERE u.correction_id = NEW.id
      AND u.window_start = NEW.window_start
    HAVING count(*) = NEW.record_count AND sum(u.unit_seconds) = NEW.unit_seconds) THEN
    RAISE EXCEPTION 'correction % is posted without its records', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Write the records in the same transaction.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION metering_posted_is_written;
