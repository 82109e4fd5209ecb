from django.db import migrations

from quotas.migrations._admission import MAY_BE_STALE
from quotas.migrations._admitting import ADMIT


class Migration(migrations.Migration):
    dependencies = [("quotas", "0016_admit_many_for_less")]

    operations = [
        migrations.RunSQL(
            "DROP FUNCTION IF EXISTS quotas_may_be_stale(jsonb, uuid, jsonb);\n" + MAY_BE_STALE,
            migrations.RunSQL.noop,
        ),
        # As it is now; what made it first makes it so too, so nothing is undone.
        migrations.RunSQL(
            f"DROP FUNCTION IF EXISTS quotas_admit(jsonb);\n{ADMIT}", migrations.RunSQL.noop
        ),
    ]
