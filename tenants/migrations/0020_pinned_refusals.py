from django.db import migrations, models

from tenants.migrations._indexes import add_index


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tenants", "0019_secret_hosts")]

    operations = [
        *add_index(
            "auditentry", models.Index(fields=["transaction_id"], name="audit_by_transaction")
        ),
        migrations.RunSQL(
            "ALTER FUNCTION ledger_refuse() SET search_path = pg_catalog, public, pg_temp",
            "ALTER FUNCTION ledger_refuse() RESET search_path",
        ),
    ]
