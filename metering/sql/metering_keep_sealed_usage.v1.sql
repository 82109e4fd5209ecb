-- Usage of a sealed window is never deleted.
CREATE OR REPLACE FUNCTION metering_keep_sealed_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM metering_meteringwindow w WHERE w.id = OLD.window_id
    AND w.state = 'sealed') THEN
    RAISE EXCEPTION 'DELETE on usage is refused: the window is sealed'
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END $$;
-- reverse
DROP FUNCTION metering_keep_sealed_usage;
