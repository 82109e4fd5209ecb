from django.db import migrations, models

from tenants.migrations._indexes import add_index


class Migration(migrations.Migration):
    # Hours are metered while it is made: the table is not locked for it.
    atomic = False
    dependencies = [("metering", "0013_decisions")]

    operations = add_index(
        "meteringwindow",
        models.Index(
            condition=models.Q(("state", "sealed"), _negated=True),
            fields=["start_at"],
            name="window_unsealed",
        ),
    )
