from django.db import migrations

from quotas.migrations._retention import FOLD, FORGET


class Migration(migrations.Migration):
    dependencies = [("quotas", "0012_retention_indexes")]

    operations = [
        migrations.RunSQL(FORGET, "DROP FUNCTION quotas_forget_reservations;"),
        migrations.RunSQL(FOLD, "DROP FUNCTION quotas_fold_refusals;"),
    ]
