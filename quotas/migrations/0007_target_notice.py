"""What the cluster's own configuration says about the quotas of a namespace."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0006_admitted_pods")]

    operations = [
        migrations.AddField(
            model_name="enforcementtarget",
            name="notice",
            field=models.TextField(blank=True, db_default="", default=""),
        )
    ]
