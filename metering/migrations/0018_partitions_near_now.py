from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE

USAGE = "metering_usagerecord"

# Of a month that no cluster is metered in, a partition is only in the way: each one costs planning
# time, and `verify` asks each for its triggers.
NEAR_NOW = f"""
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
    name := '{USAGE}_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF {USAGE} FOR VALUES FROM (%L) TO (%L)', name, first_day,
      (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
      EXECUTE FUNCTION ledger_refuse(''usage is never truncated'')', name || '_truncate', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
      FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage()', name || '_insert', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_insert');
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON %I TO {RUNTIME_ROLE}', name);
    EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM {RUNTIME_ROLE}', name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
"""
BEFORE = f"""
CREATE OR REPLACE FUNCTION metering_ensure_partitions(from_month timestamptz, months integer)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  first_day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF months NOT BETWEEN 1 AND 120 THEN
    RAISE EXCEPTION 'months must be 1 to 120, not %', months;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metering_ensure_partitions'));
  FOR step IN 0 .. months - 1 LOOP
    first_day := (date_trunc('month', from_month AT TIME ZONE 'UTC')
                  + make_interval(months => step)) AT TIME ZONE 'UTC';
    name := '{USAGE}_' || to_char(first_day AT TIME ZONE 'UTC', 'YYYY_MM');
    CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF {USAGE} FOR VALUES FROM (%L) TO (%L)', name, first_day,
      (first_day AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT
      EXECUTE FUNCTION ledger_refuse(''usage is never truncated'')', name || '_truncate', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_truncate');
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
      FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage()', name || '_insert', name);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, name || '_insert');
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON %I TO {RUNTIME_ROLE}', name);
    EXECUTE format('REVOKE UPDATE, TRUNCATE ON %I FROM {RUNTIME_ROLE}', name);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0017_sealed_hours_stay")]

    operations = [migrations.RunSQL(NEAR_NOW, BEFORE)]
