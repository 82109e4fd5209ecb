from django.db import migrations

from quotas.migrations._admit_many import ADMIT_MANY


class Migration(migrations.Migration):
    dependencies = [("quotas", "0010_sweep_in_turns")]

    operations = [migrations.RunSQL(ADMIT_MANY, "DROP FUNCTION quotas_admit_many;")]
