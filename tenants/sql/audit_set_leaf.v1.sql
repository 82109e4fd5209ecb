-- The database sets time, transaction and leaf of an entry, whatever the statement gave.
CREATE OR REPLACE FUNCTION audit_set_leaf() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  NEW.recorded_at := clock_timestamp();
  NEW.transaction_id := pg_current_xact_id()::text::bigint;
  NEW.leaf := sha256(audit_leaf_input(NEW));
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION audit_set_leaf;
