from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_triggers

AUDIT = "tenants_auditentry"
GIVEN = (
    "occurred_at, actor_kind, actor_id, actor_label, action, object_kind, object_id,"
    " organization_id, facts, leaf, recorded_at, transaction_id"
)

COLUMNS = f"""
ALTER TABLE {AUDIT} ADD COLUMN IF NOT EXISTS recorded_at timestamptz,
  ADD COLUMN IF NOT EXISTS transaction_id bigint;
"""

# What the database says of an entry is written over whatever the statement gave. Entries of before
# have no recorded time, and the leaf they had.
LEAF = """
CREATE OR REPLACE FUNCTION audit_leaf_input(entry tenants_auditentry) RETURNS bytea
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT '\\x00'::bytea || string_agg(
           convert_to(octet_length(convert_to(part, 'UTF8'))::text || ':', 'UTF8')
           || convert_to(part, 'UTF8'), ''::bytea ORDER BY position)
  FROM unnest(ARRAY[
         entry.id::text,
         to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         entry.actor_kind, entry.actor_id, entry.actor_label, entry.action, entry.object_kind,
         entry.object_id, coalesce(entry.organization_id::text, ''), entry.facts::text
       ] || CASE WHEN entry.recorded_at IS NULL THEN '{}' ELSE ARRAY[
         to_char(entry.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         entry.transaction_id::text] END
       ) WITH ORDINALITY AS parts(part, position)
$$;
CREATE OR REPLACE FUNCTION audit_set_leaf() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  NEW.recorded_at := clock_timestamp();
  NEW.transaction_id := pg_current_xact_id()::text::bigint;
  NEW.leaf := sha256(audit_leaf_input(NEW));
  RETURN NEW;
END $$;
"""
# After the way back new entries have neither column's value, and verify without them.
LEAF_OF_BEFORE = """
CREATE OR REPLACE FUNCTION audit_leaf_input(entry tenants_auditentry) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
  SELECT '\\x00'::bytea || string_agg(
           convert_to(octet_length(convert_to(part, 'UTF8'))::text || ':', 'UTF8')
           || convert_to(part, 'UTF8'), ''::bytea ORDER BY position)
  FROM unnest(ARRAY[
         entry.id::text,
         to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         entry.actor_kind, entry.actor_id, entry.actor_label, entry.action, entry.object_kind,
         entry.object_id, coalesce(entry.organization_id::text, ''), entry.facts::text
       ]) WITH ORDINALITY AS parts(part, position)
$$;
CREATE OR REPLACE FUNCTION audit_set_leaf() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.leaf := sha256(audit_leaf_input(NEW));
  RETURN NEW;
END $$;
"""

# No statement of the service names the id, so it always comes from the sequence. Which migrations
# were applied is the owner's to say.
GRANTS = f"""
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {RUNTIME_ROLE};
REVOKE INSERT ON {AUDIT} FROM {RUNTIME_ROLE};
GRANT INSERT ({GIVEN}) ON {AUDIT} TO {RUNTIME_ROLE};
"""
NO_GRANTS = f"""
GRANT INSERT ON {AUDIT} TO {RUNTIME_ROLE};
GRANT INSERT, UPDATE, DELETE ON django_migrations TO {RUNTIME_ROLE};
"""

# Looked at when the transaction commits, so that the entry may come before or after the change. It
# names the row, or the person or service account that holds it: an entry about something else is
# none. A restored database counts its transactions anew: an old entry of the same number is none.
# The owner of the tables is spared: migrations change rows, and only it may do so unseen.
AUDITED = f"""
CREATE FUNCTION audit_require_entry() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  written jsonb[] := CASE TG_OP WHEN 'INSERT' THEN ARRAY[to_jsonb(NEW)]
                       WHEN 'DELETE' THEN ARRAY[to_jsonb(OLD)]
                       ELSE ARRAY[to_jsonb(OLD), to_jsonb(NEW)] END;
BEGIN
  IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
    RETURN NULL;
  END IF;
  IF written[1] -> 'is_superuser' IS DISTINCT FROM written[cardinality(written)] -> 'is_superuser'
  THEN
    RAISE EXCEPTION 'UPDATE on % is refused: is_superuser stays as it was made', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation', HINT = 'Give the role of a platform admin instead.';
  END IF;
  IF EXISTS (SELECT FROM unnest(written) AS w(one) WHERE NOT EXISTS (
       SELECT FROM {AUDIT} WHERE transaction_id = pg_current_xact_id()::text::bigint
          AND recorded_at > clock_timestamp() - interval '1 day'
          AND ((object_kind, object_id) = (TG_ARGV[0], w.one ->> 'id')
            OR (object_kind, object_id) = ('user', w.one ->> 'user_id')
            OR (object_kind, object_id) = ('service_account', w.one ->> 'service_account_id'))))
  THEN
    RAISE EXCEPTION '% on % is refused: it leaves no audit entry', TG_OP, TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation',
            HINT = 'Write the audit entry in the same transaction: call the service.';
  END IF;
  RETURN NULL;
END $$;
"""
# By table, what entries call its rows, and the column that may change unseen: it notes a use and is
# no right of anybody.
PEOPLE = {
    "auth_user": ("user", "last_login"),
    "auth_user_groups": ("", ""),
    "auth_user_user_permissions": ("", ""),
    "tenants_membership": ("membership", ""),
    "tenants_apitoken": ("api_token", "last_used_at"),
}


def _constraint(table: str, name: str, event: str, *, kind: str, when: str = "") -> str:
    condition = f"WHEN ({when}) " if when else ""
    return always(
        table,
        f"{table}_{name}",
        f"AFTER {event} ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        f"{condition}EXECUTE FUNCTION audit_require_entry('{kind}')",
    ).replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER")


def _audited(table: str, kind: str, spared: str) -> str:
    changed = f"to_jsonb(OLD) - '{spared}' IS DISTINCT FROM to_jsonb(NEW) - '{spared}'"
    return _constraint(table, "is_audited", "INSERT OR DELETE", kind=kind) + _constraint(
        table, "change_is_audited", "UPDATE", kind=kind, when=changed
    )


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tenants", "0013_person_sessions"),
    ]

    operations = [
        # The way back keeps the columns: entries that have them verify by nothing else.
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(COLUMNS, migrations.RunSQL.noop)],
            state_operations=[
                migrations.AddField(
                    model_name="auditentry",
                    name="recorded_at",
                    field=models.DateTimeField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="auditentry",
                    name="transaction_id",
                    field=models.BigIntegerField(editable=False, null=True),
                ),
            ],
        ),
        migrations.RunSQL(LEAF, LEAF_OF_BEFORE),
        migrations.RunSQL(GRANTS, NO_GRANTS),
        migrations.RunSQL(
            AUDITED
            + "".join(_audited(table, *names) for table, names in PEOPLE.items())
            + f"REVOKE DELETE ON auth_user, tenants_apitoken FROM {RUNTIME_ROLE};\n",
            f"GRANT DELETE ON auth_user, tenants_apitoken TO {RUNTIME_ROLE};\n"
            + "".join(
                drop_triggers(table, f"{table}_is_audited", f"{table}_change_is_audited")
                for table in PEOPLE
            )
            + "DROP FUNCTION audit_require_entry();\n",
        ),
    ]
