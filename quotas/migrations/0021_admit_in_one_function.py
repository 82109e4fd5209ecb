from django.db import migrations

from quotas.migrations._admission import PLACE
from quotas.migrations._admit import ADMIT, DECIDE
from quotas.migrations._admit_many import ADMIT_MANY
from quotas.migrations._admitting import ADMIT as ADMIT_ONE
from quotas.migrations._admitting import RESERVE

DROPPED = """
DROP FUNCTION quotas_admit_many(jsonb);
DROP FUNCTION quotas_admit(jsonb);
DROP FUNCTION quotas_reserve(jsonb, uuid, uuid, text, integer, boolean);
DROP FUNCTION quotas_place(jsonb, timestamptz);
"""


class Migration(migrations.Migration):
    dependencies = [("quotas", "0020_isolation_policy_names")]

    operations = [
        migrations.RunSQL(
            DROPPED,
            PLACE + RESERVE + ADMIT_ONE + ADMIT_MANY,
        ),
        migrations.RunSQL(DECIDE, "DROP FUNCTION quotas_decide(jsonb);"),
        migrations.RunSQL(ADMIT, "DROP FUNCTION quotas_admit(jsonb);"),
    ]
