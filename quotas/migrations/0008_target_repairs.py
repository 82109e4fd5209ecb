"""When a quota was repaired lately: one that is deleted again and again is a conflict."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0007_target_notice")]

    operations = [
        migrations.AddField(
            model_name="enforcementtarget",
            name="repaired_at",
            field=models.JSONField(
                blank=True, db_default=models.Value([], models.JSONField()), default=list
            ),
        ),
    ]
