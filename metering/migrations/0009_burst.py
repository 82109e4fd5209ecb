from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0008_catalogue")]

    operations = [
        migrations.AddIndex(
            model_name="podallocation",
            index=models.Index(
                condition=models.Q(sharing_mode__in=["time-slicing", "mps"]),
                fields=["begin_at"],
                name="allocation_shared",
            ),
        ),
        migrations.AddIndex(
            model_name="deviceusage",
            index=models.Index(
                condition=models.Q(
                    ("attribution", "exclusive"), models.Q(("instance_id", ""), _negated=True)
                ),
                fields=["window_start"],
                name="device_usage_instances",
            ),
        ),
    ]
