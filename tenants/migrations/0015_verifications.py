from django.db import migrations, models

from tenants.migrations._ledger import (
    RUNTIME_ROLE,
    always,
    drop_refusals,
    drop_triggers,
    refuse,
)

VERIFICATION = "tenants_verification"
BEGUN = (
    "started_at, ended_at, checks, check_name, is_nightly, cursor, counts, differences,"
    " difference_count, audit_count, audit_digest"
)

# A run begins at its first check and ends with its last, by the database's clock, and keeps what
# it has found. No statement of the service names the id, so it always comes from the sequence.
RULES = f"""
CREATE FUNCTION verification_begin() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
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
CREATE FUNCTION verification_go_on() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  following text := coalesce((
    SELECT n.name FROM jsonb_array_elements_text(OLD.checks) WITH ORDINALITY AS n(name, position)
     WHERE n.position > (SELECT o.position
                           FROM jsonb_array_elements_text(OLD.checks)
                                WITH ORDINALITY AS o(name, position) WHERE o.name = OLD.check_name)
     ORDER BY n.position LIMIT 1), '');
BEGIN
  IF (NEW.id, NEW.started_at, NEW.checks, NEW.is_nightly)
       IS DISTINCT FROM (OLD.id, OLD.started_at, OLD.checks, OLD.is_nightly)
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
REVOKE INSERT ON {VERIFICATION} FROM {RUNTIME_ROLE};
GRANT INSERT ({BEGUN}) ON {VERIFICATION} TO {RUNTIME_ROLE};
"""
TRIGGERS = always(
    VERIFICATION,
    f"{VERIFICATION}_begins",
    f"BEFORE INSERT ON {VERIFICATION} FOR EACH ROW EXECUTE FUNCTION verification_begin()",
) + always(
    VERIFICATION,
    f"{VERIFICATION}_goes_on",
    f"BEFORE UPDATE ON {VERIFICATION} FOR EACH ROW EXECUTE FUNCTION verification_go_on()",
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0014_audited_writes")]

    operations = [
        migrations.CreateModel(
            name="Verification",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("checks", models.JSONField(default=list)),
                ("is_nightly", models.BooleanField(default=False)),
                ("check_name", models.CharField(blank=True, default="", max_length=64)),
                ("cursor", models.JSONField(default=dict)),
                ("counts", models.JSONField(default=dict)),
                ("differences", models.JSONField(default=list)),
                ("difference_count", models.PositiveIntegerField(default=0)),
                ("audit_count", models.BigIntegerField(default=0)),
                ("audit_digest", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.RunSQL(
            RULES,
            "DROP FUNCTION verification_begin();DROP FUNCTION verification_go_on();"
            f"GRANT INSERT ON {VERIFICATION} TO {RUNTIME_ROLE};",
        ),
        migrations.RunSQL(
            TRIGGERS
            + refuse(
                VERIFICATION,
                operation="UPDATE",
                reason="a verification that has ended is kept",
                when="OLD.ended_at IS NOT NULL",
            )
            + refuse(VERIFICATION, operation="DELETE", reason="verifications are kept")
            + refuse(VERIFICATION, operation="TRUNCATE", reason="verifications are kept"),
            drop_triggers(VERIFICATION, f"{VERIFICATION}_begins", f"{VERIFICATION}_goes_on")
            + drop_refusals(VERIFICATION),
        ),
    ]
