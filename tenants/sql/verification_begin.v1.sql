-- A run begins with its first check, at the database's time. Only the owner of the table may
-- accept what earlier runs reported.
CREATE OR REPLACE FUNCTION verification_begin() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NEW.accepted_entry_id > 0 AND NOT pg_has_role(
       (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
    RAISE EXCEPTION 'INSERT on tenants_verification is refused: % does not own it', current_user
      USING ERRCODE = 'restrict_violation',
            HINT = 'Run manage.py verify --accept-through as the owner of the tables.';
  END IF;
  NEW.begun_by := current_user;
  NEW.started_at := clock_timestamp();
  NEW.ended_at := NULL;
  NEW.check_name := NEW.checks ->> 0;
  NEW.counts := '{}';
  NEW.differences := '[]';
  NEW.difference_count := 0;
  NEW.audit_count := 0;
  NEW.audit_digest := '';
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION verification_begin;
