from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0009_burst")]

    operations = [
        migrations.AddIndex(
            model_name="claimconsumer",
            index=models.Index(fields=["cluster", "pod_uid"], name="claim_consumer_by_pod"),
        ),
    ]
