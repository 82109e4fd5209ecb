-- One query over all new rows: the windows exist, agree with the rows, and still take device
-- figures.
CREATE OR REPLACE FUNCTION metering_check_device_usage() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.window_id, n.uuid, d.state INTO offender
    FROM new_rows n LEFT JOIN metering_meteringwindow w ON w.id = n.window_id
    LEFT JOIN metering_devicewindow d ON d.window_id = n.window_id
   WHERE w.id IS NULL OR d.state IN ('sealed', 'unavailable')
      OR w.start_at <> n.window_start OR w.cluster_id <> n.cluster_id
      OR n.begin_at < w.start_at OR n.end_at > w.start_at + interval '1 hour'
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: devices of window %, %, do not take %',
      offender.window_id, COALESCE(offender.state, 'not due'), offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed device figures take no rows; window, cluster and times must agree.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION metering_check_device_usage;
