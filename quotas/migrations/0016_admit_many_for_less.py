from django.db import migrations

from quotas.migrations._admit_many import ADMIT_MANY


class Migration(migrations.Migration):
    dependencies = [("quotas", "0015_windows_keep_their_times")]

    operations = [
        # As it is now; what made it first makes it so too, so nothing is undone.
        migrations.RunSQL(
            f"DROP FUNCTION IF EXISTS quotas_admit_many(jsonb);\n{ADMIT_MANY}",
            migrations.RunSQL.noop,
        ),
    ]
