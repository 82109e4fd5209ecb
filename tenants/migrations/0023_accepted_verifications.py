from importlib import import_module

from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE

VERIFICATION = "tenants_verification"
BEFORE = import_module("tenants.migrations.0015_verifications").RULES
BEGIN, END = "CREATE FUNCTION", "END $$;\n"

# A run of a person is continued by the role that began it, so that the service's role cannot stop
# one of the owner. What earlier runs say is set aside by the owner of the table only.
RULES = f"""
CREATE OR REPLACE FUNCTION verification_begin() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NEW.accepted_entry_id > 0 AND NOT pg_has_role(
       (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
    RAISE EXCEPTION 'INSERT on {VERIFICATION} is refused: % does not own it', current_user
      USING ERRCODE = 'restrict_violation',
            HINT = 'Run manage.py verify --accept-through as the owner of the tables.';
  END IF;
  NEW.begun_by := current_user;
  NEW.started_at := clock_timestamp();
  NEW.ended_at := NULL;
  NEW.check_name := NEW.checks ->> 0;
  NEW.counts := '{{}}';
  NEW.differences := '[]';
  NEW.difference_count := 0;
  NEW.audit_count := 0;
  NEW.audit_digest := '';
  RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION verification_go_on() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  following text := coalesce((
    SELECT n.name FROM jsonb_array_elements_text(OLD.checks) WITH ORDINALITY AS n(name, position)
     WHERE n.position > (SELECT o.position
                           FROM jsonb_array_elements_text(OLD.checks)
                                WITH ORDINALITY AS o(name, position) WHERE o.name = OLD.check_name)
     ORDER BY n.position LIMIT 1), '');
BEGIN
  IF NOT OLD.is_nightly AND OLD.begun_by <> current_user THEN
    RAISE EXCEPTION 'UPDATE on {VERIFICATION} is refused: run % was begun by %',
      OLD.id, OLD.begun_by
      USING ERRCODE = 'restrict_violation', HINT = 'Begin another run: manage.py verify.';
  END IF;
  IF (NEW.id, NEW.started_at, NEW.checks, NEW.is_nightly, NEW.begun_by, NEW.accepted_entry_id)
       IS DISTINCT FROM
     (OLD.id, OLD.started_at, OLD.checks, OLD.is_nightly, OLD.begun_by, OLD.accepted_entry_id)
     OR NEW.check_name NOT IN (OLD.check_name, following)
     OR NEW.difference_count < OLD.difference_count
     OR NOT NEW.differences @> OLD.differences
     OR (OLD.audit_digest <> '' AND (NEW.audit_count, NEW.audit_digest)
           IS DISTINCT FROM (OLD.audit_count, OLD.audit_digest)) THEN
    RAISE EXCEPTION 'UPDATE on {VERIFICATION} is refused: run % goes on check by check', OLD.id
      USING ERRCODE = 'restrict_violation', HINT = 'Begin another run: manage.py verify.';
  END IF;
  NEW.ended_at := CASE WHEN NEW.check_name = '' THEN clock_timestamp() END;
  RETURN NEW;
END $$;
GRANT INSERT (begun_by, accepted_entry_id) ON {VERIFICATION} TO {RUNTIME_ROLE};
"""


def _functions(rules: str) -> str:
    """Return both functions as they were, for the way back."""
    bodies = rules[: rules.rindex(END) + len(END)]
    return bodies.replace(BEGIN, "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0022_secret_origins")]

    operations = [
        migrations.AddField(
            "Verification", "begun_by", models.CharField(blank=True, default="", max_length=63)
        ),
        migrations.AddField(
            "Verification", "accepted_entry_id", models.PositiveBigIntegerField(default=0)
        ),
        migrations.RunSQL(RULES, _functions(BEFORE)),
    ]
