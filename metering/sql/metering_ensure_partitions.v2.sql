-- The runtime role owns no table, so it calls this function for the next months' partitions. A
-- partition of a month without metering costs planning time, and `verify` checks the triggers of
-- each. A month that is archived gets none, so that nothing is added to it.
CREATE OR REPLACE FUNCTION metering_ensure_partitions(from_month timestamptz, months integer)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF months NOT BETWEEN 1 AND 24 THEN
    RAISE EXCEPTION 'months must be 1 to 24, not %', months;
  END IF;
  IF from_month NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
    RAISE EXCEPTION 'the month of % is more than 10 years from now', from_month
      USING ERRCODE = 'restrict_violation';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metering_ensure_partitions'));
  FOR step IN 0 .. months - 1 LOOP
    first_day := (date_trunc('month', from_month AT TIME ZONE 'UTC')
                  + make_interval(months => step)) AT TIME ZONE 'UTC';
    name := 'metering_usagerecord_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    IF EXISTS (SELECT FROM tenants_archivedmonth m WHERE m.table_name = 'usage'
                  AND m.begin_at = first_day AND m.restored_at IS NULL) THEN
      RAISE EXCEPTION 'the usage of % is archived', to_char(first_day AT TIME ZONE 'UTC', 'YYYY-MM')
        USING ERRCODE = 'restrict_violation', HINT = 'Restore it: manage.py restore_month.';
    END IF;
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF metering_usagerecord FOR VALUES FROM (%L) TO (%L)', name,
        first_day,
      (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    PERFORM metering_guard_partition(name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
REVOKE EXECUTE ON FUNCTION metering_ensure_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION metering_ensure_partitions TO gpu_ledger_runtime;
-- reverse
-- The runtime role owns no table, so it calls this function for the next months' partitions. A
-- partition of a month without metering costs planning time, and `verify` checks the triggers of
-- each.
CREATE OR REPLACE FUNCTION metering_ensure_partitions(from_month timestamptz, months integer)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF months NOT BETWEEN 1 AND 24 THEN
    RAISE EXCEPTION 'months must be 1 to 24, not %', months;
  END IF;
  IF from_month NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
    RAISE EXCEPTION 'the month of % is more than 10 years from now', from_month
      USING ERRCODE = 'restrict_violation';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metering_ensure_partitions'));
  FOR step IN 0 .. months - 1 LOOP
    first_day := (date_trunc('month', from_month AT TIME ZONE 'UTC')
                  + make_interval(months => step)) AT TIME ZONE 'UTC';
    name := 'metering_usagerecord_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF metering_usagerecord FOR VALUES FROM (%L) TO (%L)', name,
        first_day,
      (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
      EXECUTE FUNCTION ledger_refuse(''usage is never truncated'')', name || '_truncate', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
      FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage()', name || '_insert', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_insert');
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON %I TO gpu_ledger_runtime', name);
    EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM gpu_ledger_runtime', name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
REVOKE EXECUTE ON FUNCTION metering_ensure_partitions FROM PUBLIC;
GRANT EXECUTE ON FUNCTION metering_ensure_partitions TO gpu_ledger_runtime;
