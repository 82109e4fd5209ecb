from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # The watch writes while it is made: the table is not locked for it.
    atomic = False
    dependencies = [("metering", "0009_burst")]

    operations = [
        AddIndexConcurrently(
            model_name="claimconsumer",
            index=models.Index(fields=["cluster", "pod_uid"], name="claim_consumer_by_pod"),
        ),
    ]
