-- Each change of a row needs an audit entry of an action that makes this change, about the row or
-- its holder, whose facts match the row. A change that no line of the table lists is refused: no
-- service makes a person a superuser, moves a role or makes a revoked token valid again. Checked
-- when the transaction commits, so that the entry may come before or after the change. A restored
-- database counts its transactions anew: an old entry of the same number does not count. The
-- columns last_login and last_used_at grant nothing and may change without an entry. The owner of
-- the tables is exempt, because migrations change rows. An entry is shown to the organization it
-- names, so it must name the organization of the role or token.
CREATE OR REPLACE FUNCTION audit_require_entry() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  before jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE to_jsonb(OLD) END;
  after jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
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
     SELECT FROM tenants_auditentry AS e, LATERAL (VALUES
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
        after @> '{"is_active": true}'),
       ('auth_user', ARRAY['is_active'], 'user:deactivate', 'user', row_id,
        after @> '{"is_active": false}'),
       ('tenants_membership', ARRAY['INSERT'], 'membership:create', 'membership', row_id,
        e.facts @> jsonb_build_object('role', one -> 'role', 'holder', holder)
        AND coalesce(e.facts ->> 'project_id', '') = coalesce(one ->> 'project_id', '')
        AND e.organization_id IS NOT DISTINCT FROM coalesce((one ->> 'organization_id')::uuid,
          (SELECT organization_id FROM tenants_project WHERE id = (one ->> 'project_id')::uuid))),
       ('tenants_membership', ARRAY['DELETE'], 'membership:delete', 'membership', row_id,
        e.facts @> jsonb_build_object('role', one -> 'role', 'holder', holder)
        AND coalesce(e.facts ->> 'project_id', '') = coalesce(one ->> 'project_id', '')
        AND e.organization_id IS NOT DISTINCT FROM coalesce((one ->> 'organization_id')::uuid,
          (SELECT organization_id FROM tenants_project WHERE id = (one ->> 'project_id')::uuid))),
       ('tenants_apitoken', ARRAY['INSERT'], 'api_token:create', 'api_token', row_id,
        e.facts @> jsonb_build_object('prefix', one -> 'prefix', 'holder', holder)
        AND e.facts -> 'scopes' = one -> 'scopes'
        AND CASE WHEN e.action = 'tenants:api_token:create'
              THEN (e.facts ->> 'expires_at')::timestamptz = (one ->> 'expires_at')::timestamptz END
        AND e.organization_id IS NOT DISTINCT FROM (
          SELECT organization_id FROM tenants_serviceaccount WHERE id = account_id::uuid)),
       ('tenants_apitoken', ARRAY['revoked_at'], 'api_token:revoke', 'api_token', row_id,
        before @> '{"revoked_at": null}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:password', 'user', user_id,
        before @> '{"revoked_at": null}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:end_credentials', 'user', user_id,
        before @> '{"revoked_at": null}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'user:deactivate', 'user', user_id,
        before @> '{"revoked_at": null}'),
       ('tenants_apitoken', ARRAY['revoked_at'], 'service_account:close', 'service_account',
        account_id, before @> '{"revoked_at": null}')
     ) AS permitted(changed_table, changes, action, object_kind, object_id, is_true)
      WHERE e.transaction_id = pg_current_xact_id()::text::bigint
        AND e.recorded_at > clock_timestamp() - interval '1 day'
        AND permitted.changed_table = TG_TABLE_NAME AND c.change = ANY(permitted.changes)
        AND (e.action, e.object_kind, e.object_id)
          = ('tenants:' || permitted.action, permitted.object_kind, permitted.object_id)
        AND permitted.is_true);
  IF unseen IS NOT NULL THEN
    RAISE EXCEPTION '% on % is refused: it leaves no audit entry (%)', TG_OP, TG_TABLE_NAME, unseen
      USING ERRCODE = 'restrict_violation',
            HINT = 'The service that makes this change writes the entry in the same transaction.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION audit_require_entry;
