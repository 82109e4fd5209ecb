-- Rows of a sealed window are never deleted.
CREATE OR REPLACE FUNCTION metering_refuse_sealed_delete() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM metering_meteringwindow w WHERE w.id = OLD.window_id
    AND w.state = 'sealed') THEN
    RAISE EXCEPTION 'DELETE on % is refused: the window is sealed', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END $$;
-- reverse
DROP FUNCTION metering_refuse_sealed_delete;
