from importlib import import_module

from django.db import migrations

BEFORE = import_module("tenants.migrations.0014_audited_writes").AUDITED
AUDIT = "tenants_auditentry"

# Each change of a row takes an entry of a deed that makes this change, about the row or its holder,
# which says of it what is true. What stands in no line of the table is refused: no service makes a
# superuser of a person, moves a role or lets a revoked token in again. As before it is looked at
# when the transaction commits, an entry of a restored database is none, the two columns that note a
# use are no right of anybody, and the owner of the tables is spared.
AUDITED = f"""
CREATE OR REPLACE FUNCTION audit_require_entry() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  before jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{{}}' ELSE to_jsonb(OLD) END;
  after jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{{}}' ELSE to_jsonb(NEW) END;
  one jsonb := CASE WHEN TG_OP = 'DELETE' THEN before ELSE after END;
  row_id text := one ->> 'id';
  user_id text := one ->> 'user_id';
  account_id text := one ->> 'service_account_id';
  holder text := coalesce(
    (SELECT username FROM auth_user WHERE id = user_id::integer),
    (SELECT slug FROM tenants_serviceaccount WHERE id = account_id::uuid));
  unseen text;
BEGIN
  IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
    RETURN NULL;
  END IF;
  SELECT string_agg(c.change, ', ' ORDER BY c.change) INTO unseen
    FROM (SELECT TG_OP AS change WHERE TG_OP <> 'UPDATE'
          UNION ALL
          SELECT a.key FROM jsonb_each(after) AS a
           WHERE TG_OP = 'UPDATE' AND a.value IS DISTINCT FROM before -> a.key
             AND a.key NOT IN ('last_login', 'last_used_at')) AS c
   WHERE NOT EXISTS (
     SELECT FROM {AUDIT} AS e, LATERAL (VALUES
       ('auth_user', ARRAY['INSERT'], 'user:create', 'user', row_id,
        e.facts @> jsonb_build_object(
          'username', one -> 'username', 'email', one -> 'email',
          'is_staff', one -> 'is_staff', 'is_superuser', one -> 'is_superuser')
        AND (e.actor_kind = 'system' OR NOT (one -> 'is_superuser')::boolean)),
       ('auth_user', ARRAY['username', 'email', 'first_name', 'last_name', 'is_staff'],
        'user:update', 'user', row_id,
        e.facts #> ARRAY['changed', c.change]
          = jsonb_build_array(before -> c.change, after -> c.change)),
       ('auth_user', ARRAY['password'], 'user:password', 'user', row_id, true),
       ('auth_user', ARRAY['password'], 'user:end_credentials', 'user', row_id, true),
       ('auth_user', ARRAY['password'], 'user:rehash_password', 'user', row_id, true),
       ('auth_user', ARRAY['is_active'], 'user:activate', 'user', row_id,
        after @> '{{"is_active": true}}'),
       ('auth_user', ARRAY['is_active'], 'user:deactivate', 'user', row_id,
        after @> '{{"is_active": false}}'),
       ('tenants_membership', ARRAY['INSERT'], 'membership:create', 'membership', row_id,
        e.facts @> jsonb_build_object('role', one -> 'role', 'holder', holder)),
       ('tenants_membership', ARRAY['DELETE'], 'membership:delete', 'membership', row_id,
        e.facts @> jsonb_build_object('role', one -> 'role', 'holder', holder)),
       ('tenants_apitoken', ARRAY['INSERT'], 'api_token:create', 'api_token', row_id,
        e.facts @> jsonb_build_object('prefix', one -> 'prefix', 'holder', holder)
        AND e.facts -> 'scopes' = one -> 'scopes'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'api_token:revoke', 'api_token', row_id,
        before @> '{{"revoked_at": null}}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:password', 'user', user_id,
        before @> '{{"revoked_at": null}}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:end_credentials', 'user', user_id,
        before @> '{{"revoked_at": null}}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:deactivate', 'user', user_id,
        before @> '{{"revoked_at": null}}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'service_account:close', 'service_account',
        account_id, before @> '{{"revoked_at": null}}')
     ) AS deed(changed_table, changes, action, object_kind, object_id, is_true)
      WHERE e.transaction_id = pg_current_xact_id()::text::bigint
        AND e.recorded_at > clock_timestamp() - interval '1 day'
        AND deed.changed_table = TG_TABLE_NAME AND c.change = ANY(deed.changes)
        AND (e.action, e.object_kind, e.object_id)
          = ('tenants:' || deed.action, deed.object_kind, deed.object_id)
        AND deed.is_true);
  IF unseen IS NOT NULL THEN
    RAISE EXCEPTION '% on % is refused: it leaves no audit entry (%)', TG_OP, TG_TABLE_NAME, unseen
      USING ERRCODE = 'restrict_violation',
            HINT = 'The service that makes this change writes the entry in the same transaction.';
  END IF;
  RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0020_pinned_refusals")]

    operations = [
        migrations.RunSQL(AUDITED, BEFORE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")),
    ]
