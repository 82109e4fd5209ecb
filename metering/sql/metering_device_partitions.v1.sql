-- Device figures are stored by month in UTC of their hour. No role has rights on a partition itself.
CREATE FUNCTION metering_guard_device_partition(name text) RETURNS void LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON %I FROM gpu_ledger_runtime', name);
  -- The id has its window, which has its hour, so that it is unique over all months too.
  EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id)', name || '_id', name);
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
    EXECUTE FUNCTION ledger_refuse(''device figures are never truncated'')',
    name || '_truncate', name);
  EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
END $$;
REVOKE EXECUTE ON FUNCTION metering_guard_device_partition FROM PUBLIC;

-- The runtime role owns no table, so it calls this function for an hour of a month without a
-- partition. The month is attached, not created in place, so that no reader waits.
CREATE FUNCTION metering_ensure_device_partition(hour timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz := date_trunc('month', hour, 'UTC');
  label text := to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
  name text := 'metering_devicefigure_' || label;
BEGIN
  IF to_regclass('public.' || name) IS NOT NULL THEN
    RETURN false;
  END IF;
  IF first_day NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
    RAISE EXCEPTION 'the month of % is more than 10 years from now', first_day
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF EXISTS (SELECT FROM tenants_archivedmonth m WHERE m.table_name = 'devices'
                AND m.begin_at = first_day AND m.restored_at IS NULL) THEN
    RAISE EXCEPTION 'the device figures of % are archived', replace(label, '_', '-')
      USING ERRCODE = 'restrict_violation', HINT = 'Restore them: manage.py restore_month.';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metering_ensure_device_partition'));
  IF to_regclass('public.' || name) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format(
    'CREATE TABLE %I (LIKE metering_devicefigure INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
  EXECUTE format(
    'ALTER TABLE metering_devicefigure ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
    first_day, (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
  PERFORM metering_guard_device_partition(name);
  RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION metering_ensure_device_partition FROM PUBLIC;
GRANT EXECUTE ON FUNCTION metering_ensure_device_partition TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION metering_ensure_device_partition, metering_guard_device_partition;
