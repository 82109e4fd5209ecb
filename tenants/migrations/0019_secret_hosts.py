from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE

TABLE = "tenants_secrethost"
KEPT = f"REVOKE UPDATE, DELETE ON {TABLE} FROM {RUNTIME_ROLE};\n"
KNOWN = rf"""
INSERT INTO {TABLE} (secret, host, created_at)
SELECT DISTINCT ON (1) secret, host, created_at FROM (
  SELECT CASE kind
           WHEN 'env' THEN 'env:' || name
           ELSE 'file:' || array_to_string(ARRAY(
             SELECT part FROM unnest(string_to_array(name, '/')) WITH ORDINALITY AS u(part, n)
              WHERE part NOT IN ('', '.') AND left(part, 2) <> '..' ORDER BY n), '/')
         END AS secret,
         lower(trim(BOTH '[]' FROM substring(url FROM '^https?://(\[[^]]*\]|[^/?#:]+)'))) AS host,
         created_at, id
    FROM (
      SELECT id, created_at, url,
             regexp_replace(split_part(reference, ':', 1), '^basic-', '') AS kind,
             substring(reference FROM position(':' IN reference) + 1) AS name
        FROM (SELECT id, created_at, kubernetes_url AS url, credential_reference AS reference
                FROM tenants_cluster
              UNION ALL
              SELECT id, created_at, prometheus_url, prometheus_credential_reference
                FROM tenants_cluster) AS named) AS split
   WHERE kind IN ('env', 'file')) AS in_use
 WHERE host <> ''
 ORDER BY 1, created_at, id;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0018_limits_of_mails")]

    operations = [
        migrations.CreateModel(
            name="SecretHost",
            fields=[
                (
                    "secret",
                    models.CharField(max_length=200, primary_key=True, serialize=False),
                ),
                ("host", models.CharField(max_length=253)),
                ("created_at", models.DateTimeField()),
            ],
            options={"ordering": ["secret"]},
        ),
        migrations.RunSQL(KEPT, f"GRANT UPDATE, DELETE ON {TABLE} TO {RUNTIME_ROLE};\n"),
        migrations.RunSQL(KNOWN, migrations.RunSQL.noop),
    ]
