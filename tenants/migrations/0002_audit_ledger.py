from django.db import migrations

from tenants.migrations._ledger import REFUSE_FUNCTION, always, append_only, drop_refusals

AUDIT = "tenants_auditentry"

# The leaf is SHA-256 over 0x00 and the length-prefixed parts of the row, as RFC 6962 hashes leaves.
LEAF_FUNCTION = """
CREATE FUNCTION audit_leaf_input(entry tenants_auditentry) RETURNS bytea
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
CREATE FUNCTION audit_set_leaf() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.leaf := sha256(audit_leaf_input(NEW));
  RETURN NEW;
END $$;
"""
DROP_LEAF = """
DROP TRIGGER IF EXISTS tenants_auditentry_leaf ON tenants_auditentry;
DROP FUNCTION audit_set_leaf();
DROP FUNCTION audit_leaf_input(tenants_auditentry);
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.RunSQL(REFUSE_FUNCTION, "DROP FUNCTION ledger_refuse();"),
        migrations.RunSQL(
            append_only(AUDIT, reason="the audit trail is append-only"), drop_refusals(AUDIT)
        ),
        migrations.RunSQL(
            LEAF_FUNCTION
            + always(
                AUDIT,
                "tenants_auditentry_leaf",
                f"BEFORE INSERT ON {AUDIT} FOR EACH ROW EXECUTE FUNCTION audit_set_leaf()",
            ),
            DROP_LEAF,
        ),
    ]
