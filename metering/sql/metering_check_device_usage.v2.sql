-- The windows of all new rows exist, agree with the rows, and still take device figures. A device
-- belongs to one organization at a time, and to that of its project, which the key leaves open.
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
  SELECT n.project_id INTO offender
    FROM (SELECT DISTINCT organization_id, project_id FROM new_rows) n
    LEFT JOIN tenants_project p ON p.id = n.project_id
   WHERE p.organization_id IS DISTINCT FROM n.organization_id
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: project % is not of the organization',
      offender.project_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A device row has the organization of its project, or neither.';
  END IF;
  -- Row by row, by the unique index: planned as a join it could read the whole table.
  SELECT n.window_id, n.uuid INTO offender
    FROM new_rows n
   WHERE EXISTS (
     SELECT FROM metering_deviceusage u
      WHERE u.window_id = n.window_id AND u.uuid = n.uuid AND u.instance_id = n.instance_id
        AND u.instance_profile = n.instance_profile AND u.begin_at = n.begin_at
        AND u.attribution = n.attribution
        AND u.organization_id IS DISTINCT FROM n.organization_id
     OFFSET 0)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device usage is refused: window % has % for another organization',
      offender.window_id, offender.uuid
      USING ERRCODE = 'restrict_violation',
            HINT = 'From one time on a device serves one organization, or none.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
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
