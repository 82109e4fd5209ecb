-- Windows of the new rows take device figures, their facts exist, and a device has one row from one
-- time on, so that it serves one organization, or none.
CREATE FUNCTION metering_check_device_figures() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record; written record;
BEGIN
  SELECT n.window_id, d.state INTO offender
    FROM (SELECT DISTINCT id >> 22 AS window_id, window_start FROM new_rows) n
    LEFT JOIN metering_meteringwindow w ON w.id = n.window_id
    LEFT JOIN metering_devicewindow d ON d.window_id = n.window_id
   WHERE w.id IS NULL OR d.state IN ('sealed', 'unavailable') OR w.start_at <> n.window_start
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device figures is refused: window %, %, does not take them',
      offender.window_id, coalesce(offender.state, 'not due')
      USING ERRCODE = 'restrict_violation',
            HINT = 'Sealed device figures take no rows; window and time must agree.';
  END IF;
  SELECT n.id INTO offender
    FROM new_rows n
    LEFT JOIN metering_meteringwindow w ON w.id = n.id >> 22
    LEFT JOIN metering_devicefact d ON d.id = n.device_id AND d.cluster_id = w.cluster_id
    LEFT JOIN metering_deviceholder h ON h.id = n.holder_id
    LEFT JOIN metering_devicecoverage c ON c.id = n.coverage_id
   WHERE d.id IS NULL OR h.id IS NULL OR c.id IS NULL;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device figures is refused: % has facts of no device of its cluster',
      offender.id
      USING ERRCODE = 'restrict_violation', HINT = 'Write the facts first.';
  END IF;
  -- Without LIMIT: it would have the rows compared one by one.
  FOR written IN SELECT DISTINCT id >> 22 AS window_id, window_start FROM new_rows LOOP
    SELECT d.uuid INTO offender
      FROM metering_devicefigure f
      JOIN metering_devicefact d ON d.id = f.device_id
      JOIN metering_deviceholder h ON h.id = f.holder_id
     WHERE f.window_start = written.window_start AND f.id >> 22 = written.window_id
     GROUP BY d.uuid, d.instance_id, d.instance_profile, f.begin_milliseconds, h.attribution
    HAVING count(*) > 1;
    IF FOUND THEN
      RAISE EXCEPTION 'INSERT on device figures is refused: window % has % from one time on twice',
        written.window_id, offender.uuid
        USING ERRCODE = 'restrict_violation',
              HINT = 'From one time on a device serves one organization, or none.';
    END IF;
  END LOOP;
  RETURN NULL;
END $$;
CREATE FUNCTION metering_keep_sealed_device_figures() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT id >> 22 AS window_id FROM old_rows) o
               JOIN metering_devicewindow d USING (window_id)
              WHERE d.state IN ('sealed', 'unavailable')) THEN
    RAISE EXCEPTION 'DELETE on % is refused: its device figures are sealed', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION metering_check_device_holders() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE offender record;
BEGIN
  SELECT n.project_id INTO offender
    FROM (SELECT DISTINCT organization_id, project_id FROM new_rows) n
    LEFT JOIN tenants_project p ON p.id = n.project_id
   WHERE p.organization_id IS DISTINCT FROM n.organization_id
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'INSERT on device holders is refused: project % is not of the organization',
      offender.project_id
      USING ERRCODE = 'restrict_violation',
            HINT = 'A holder has the organization of its project, or neither.';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER metering_devicefigure_checks_insert AFTER INSERT ON metering_devicefigure REFERENCING
  NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_check_device_figures();
CREATE TRIGGER metering_devicefigure_keeps_sealed AFTER DELETE ON metering_devicefigure REFERENCING
  OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_figures();
CREATE TRIGGER metering_devicefigure_refuses_update BEFORE UPDATE ON metering_devicefigure
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('device usage is replaced, never edited');
CREATE TRIGGER metering_devicefigure_refuses_truncate BEFORE TRUNCATE ON metering_devicefigure
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('device figures are never truncated');
ALTER TABLE metering_devicefigure
  ENABLE ALWAYS TRIGGER metering_devicefigure_checks_insert,
  ENABLE ALWAYS TRIGGER metering_devicefigure_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_devicefigure_refuses_update,
  ENABLE ALWAYS TRIGGER metering_devicefigure_refuses_truncate;
CREATE TRIGGER metering_deviceholder_checks_insert AFTER INSERT ON metering_deviceholder REFERENCING
  NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_check_device_holders();
ALTER TABLE metering_deviceholder ENABLE ALWAYS TRIGGER metering_deviceholder_checks_insert;
DO $$
DECLARE name text; event text;
BEGIN
  FOREACH name IN ARRAY ARRAY['fact', 'holder', 'coverage'] LOOP
    FOREACH event IN ARRAY ARRAY['update', 'delete', 'truncate'] LOOP
      EXECUTE format('CREATE TRIGGER metering_device%1$s_refuses_%2$s BEFORE %3$s ON
        metering_device%1$s FOR EACH %4$s EXECUTE FUNCTION
        ledger_refuse(''facts of devices are only added to'')', name, event, upper(event),
        CASE event WHEN 'truncate' THEN 'STATEMENT' ELSE 'ROW' END);
      EXECUTE format('ALTER TABLE metering_device%1$s
        ENABLE ALWAYS TRIGGER metering_device%1$s_refuses_%2$s', name, event);
    END LOOP;
  END LOOP;
END $$;
-- reverse
DROP FUNCTION metering_check_device_figures, metering_keep_sealed_device_figures,
  metering_check_device_holders CASCADE;
DO $$
DECLARE name text; event text;
BEGIN
  FOREACH name IN ARRAY ARRAY['fact', 'holder', 'coverage'] LOOP
    FOREACH event IN ARRAY ARRAY['update', 'delete', 'truncate'] LOOP
      EXECUTE format('DROP TRIGGER metering_device%1$s_refuses_%2$s ON metering_device%1$s', name, event);
    END LOOP;
  END LOOP;
END $$;
