-- Device figures that are sealed or unavailable are never deleted.
CREATE OR REPLACE FUNCTION metering_keep_sealed_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM old_rows o JOIN metering_devicewindow d USING (window_id)
              WHERE d.state IN ('sealed', 'unavailable')) THEN
    RAISE EXCEPTION 'DELETE on % is refused: its device figures are sealed', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION metering_keep_sealed_device_usage;
