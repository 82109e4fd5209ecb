from django.db import migrations, models

ORIGINS = r"""
UPDATE tenants_secrethost AS pin SET origin = COALESCE(
  (SELECT scheme || '://' || host || ':' || CASE
            WHEN port <> '' THEN port WHEN scheme = 'https' THEN '443' ELSE '80' END
     FROM (
       SELECT id, created_at, lower(part[1]) AS scheme, lower(part[2]) AS host,
              ltrim(part[3], '0') AS port,
              CASE kind
                WHEN 'env' THEN 'env:' || name
                ELSE 'file:' || array_to_string(ARRAY(
                  SELECT step FROM unnest(string_to_array(name, '/')) WITH ORDINALITY AS u(step, n)
                   WHERE step NOT IN ('', '.') AND left(step, 2) <> '..' ORDER BY n), '/')
              END AS secret
         FROM (
           SELECT id, created_at,
                  regexp_match(url, '^(https?)://(\[[^]]*\]|[^/?#:]+):?([0-9]*)', 'i') AS part,
                  regexp_replace(split_part(reference, ':', 1), '^basic-', '') AS kind,
                  substring(reference FROM position(':' IN reference) + 1) AS name
             FROM (SELECT id, created_at, kubernetes_url AS url, credential_reference AS reference
                     FROM tenants_cluster
                   UNION ALL
                   SELECT id, created_at, prometheus_url, prometheus_credential_reference
                     FROM tenants_cluster) AS named) AS split
        WHERE kind IN ('env', 'file')) AS in_use
    WHERE in_use.secret = pin.secret AND trim(BOTH '[]' FROM host) = pin.origin
    ORDER BY created_at, id
    LIMIT 1), '')
"""
HOSTS = r"""
UPDATE tenants_secrethost SET origin = COALESCE(
  trim(BOTH '[]' FROM substring(origin FROM '^https?://(\[[^]]*\]|[^:]+)')), '')
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0021_entries_say_what_changed")]

    operations = [
        migrations.RenameField("secrethost", "host", "origin"),
        migrations.AlterField("secrethost", "origin", models.CharField(max_length=267)),
        migrations.AlterField(
            "secrethost", "secret", models.TextField(primary_key=True, serialize=False)
        ),
        migrations.RunSQL(ORIGINS, HOSTS),
    ]
