-- A run ends with its last check and keeps what it has found. A run that a person started is
-- continued by the role that began it, so that the service's role cannot stop a run of the owner.
CREATE OR REPLACE FUNCTION verification_go_on() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  following text := coalesce((
    SELECT n.name FROM jsonb_array_elements_text(OLD.checks) WITH ORDINALITY AS n(name, position)
     WHERE n.position > (SELECT o.position
                           FROM jsonb_array_elements_text(OLD.checks)
                                WITH ORDINALITY AS o(name, position) WHERE o.name = OLD.check_name)
     ORDER BY n.position LIMIT 1), '');
BEGIN
  IF NOT OLD.is_nightly AND OLD.begun_by <> current_user THEN
    RAISE EXCEPTION 'UPDATE on tenants_verification is refused: run % was begun by %',
      OLD.id, OLD.begun_by
      USING ERRCODE = 'restrict_violation', HINT = 'Begin another run: manage.py verify.';
  END IF;
  IF (NEW.id, NEW.started_at, NEW.checks, NEW.is_nightly, NEW.begun_by, NEW.accepted_entry_id)
       IS DISTINCT FROM
     (OLD.id, OLD.started_at, OLD.checks, OLD.is_nightly, OLD.begun_by, OLD.accepted_entry_id)
     OR NEW.check_name NOT IN (OLD.check_name, following)
     OR NEW.difference_count < OLD.difference_count
     OR NOT NEW.differences @> OLD.differences
     OR (OLD.audit_digest <> '' AND (NEW.audit_count, NEW.audit_digest)
           IS DISTINCT FROM (OLD.audit_count, OLD.audit_digest)) THEN
    RAISE EXCEPTION 'UPDATE on tenants_verification is refused: run % goes on check by check',
      OLD.id
      USING ERRCODE = 'restrict_violation', HINT = 'Begin another run: manage.py verify.';
  END IF;
  NEW.ended_at := CASE WHEN NEW.check_name = '' THEN clock_timestamp() END;
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION verification_go_on;
