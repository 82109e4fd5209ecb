from django.db import migrations, models

from tenants.migrations._indexes import add_index


class Migration(migrations.Migration):
    # Things are told while it is made: the table is not locked for it.
    atomic = False
    dependencies = [("tenants", "0006_sweep_crashes")]

    operations = add_index(
        "notification",
        models.Index(fields=["occurred_at"], name="notification_occurred"),
    )
