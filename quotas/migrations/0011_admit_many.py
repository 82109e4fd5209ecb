from django.db import migrations

from quotas.migrations._admit_many import ADMIT_MANY
from quotas.migrations._admitting import ADMIT


class Migration(migrations.Migration):
    dependencies = [("quotas", "0010_sweep_in_turns")]

    operations = [
        # As it is now; what made it first makes it so too, so nothing is undone.
        migrations.RunSQL(
            f"DROP FUNCTION IF EXISTS quotas_admit(jsonb);\n{ADMIT}", migrations.RunSQL.noop
        ),
        migrations.RunSQL(ADMIT_MANY, "DROP FUNCTION quotas_admit_many;"),
    ]
