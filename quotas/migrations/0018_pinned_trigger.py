from django.db import migrations

HOLDER = "quota_grant_name_holder()"


class Migration(migrations.Migration):
    dependencies = [("quotas", "0017_refuse_without_locks")]

    operations = [
        migrations.RunSQL(
            f"ALTER FUNCTION {HOLDER} SET search_path = pg_catalog, public, pg_temp",
            f"ALTER FUNCTION {HOLDER} RESET search_path",
        ),
    ]
