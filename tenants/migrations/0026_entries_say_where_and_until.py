from importlib import import_module

from django.db import migrations

BEFORE = import_module("tenants.migrations.0021_entries_say_what_changed").AUDITED
HOLDER = "'role', one -> 'role', 'holder', holder))"
# An entry is shown to the organization it names, so a role of another one would be given unseen.
ROLE = """'role', one -> 'role', 'holder', holder)
        AND coalesce(e.facts ->> 'project_id', '') = coalesce(one ->> 'project_id', '')
        AND e.organization_id IS NOT DISTINCT FROM coalesce((one ->> 'organization_id')::uuid,
          (SELECT organization_id FROM tenants_project WHERE id = (one ->> 'project_id')::uuid)))"""
ISSUED = "AND e.facts -> 'scopes' = one -> 'scopes')"
UNTIL = """AND e.facts -> 'scopes' = one -> 'scopes'
        AND CASE WHEN e.action = 'tenants:api_token:create'
              THEN (e.facts ->> 'expires_at')::timestamptz = (one ->> 'expires_at')::timestamptz END
        AND e.organization_id IS NOT DISTINCT FROM (
          SELECT organization_id FROM tenants_serviceaccount WHERE id = account_id::uuid))"""
AUDITED = BEFORE.replace(HOLDER, ROLE).replace(ISSUED, UNTIL)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0025_plain_user_names")]

    operations = [migrations.RunSQL(AUDITED, BEFORE)]
