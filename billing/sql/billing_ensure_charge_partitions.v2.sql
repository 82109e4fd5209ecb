-- A month whose charges are archived gets no partition, so that nothing is added to it.
CREATE OR REPLACE FUNCTION billing_ensure_charge_partitions(hours timestamptz[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing_ensure_charge_partitions'));
  FOR first_day IN
    SELECT DISTINCT date_trunc('month', hour, 'UTC') FROM unnest(hours) AS hour ORDER BY 1
  LOOP
    IF first_day NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
      RAISE EXCEPTION 'the month of % is more than 10 years from now', first_day
        USING ERRCODE = 'restrict_violation';
    END IF;
    name := 'billing_charge_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    IF EXISTS (SELECT FROM tenants_archivedmonth m WHERE m.table_name = 'charges'
                  AND m.begin_at = first_day AND m.restored_at IS NULL) THEN
      RAISE EXCEPTION 'the charges of % are archived',
        to_char(first_day AT TIME ZONE 'UTC', 'YYYY-MM')
        USING ERRCODE = 'restrict_violation', HINT = 'Restore them: manage.py restore_month.';
    END IF;
    EXECUTE format(
      'CREATE TABLE %I (LIKE billing_charge INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format(
      'ALTER TABLE billing_charge ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
      first_day, (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    PERFORM billing_guard_charge_partition(name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
-- reverse
CREATE OR REPLACE FUNCTION billing_ensure_charge_partitions(hours timestamptz[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('billing_ensure_charge_partitions'));
  FOR first_day IN
    SELECT DISTINCT date_trunc('month', hour, 'UTC') FROM unnest(hours) AS hour ORDER BY 1
  LOOP
    IF first_day NOT BETWEEN now() - interval '10 years' AND now() + interval '10 years' THEN
      RAISE EXCEPTION 'the month of % is more than 10 years from now', first_day
        USING ERRCODE = 'restrict_violation';
    END IF;
    name := 'billing_charge_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    EXECUTE format(
      'CREATE TABLE %I (LIKE billing_charge INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format('REVOKE ALL ON %I FROM gpu_ledger_runtime', name);
    EXECUTE format(
      'ALTER TABLE billing_charge ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
      first_day, (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
      EXECUTE FUNCTION ledger_refuse(''charges are never truncated'')', name || '_truncate', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
