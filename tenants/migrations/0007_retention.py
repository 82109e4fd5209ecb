from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Things are told while it is made: the table is not locked for it.
    atomic = False
    dependencies = [("tenants", "0006_sweep_crashes")]

    operations = [
        AddIndexConcurrently(
            model_name="notification",
            index=models.Index(fields=["occurred_at"], name="notification_occurred"),
        ),
    ]
