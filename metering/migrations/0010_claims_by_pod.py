from django.db import migrations, models

from tenants.migrations._indexes import add_index


class Migration(migrations.Migration):
    # The watch writes while it is made: the table is not locked for it.
    atomic = False
    dependencies = [("metering", "0009_burst")]

    operations = add_index(
        "claimconsumer",
        models.Index(fields=["cluster", "pod_uid"], name="claim_consumer_by_pod"),
    )
