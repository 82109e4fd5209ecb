"""Which workloads lack pods because of a namespace's quota, and when that was read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0009_admission_coverage")]

    operations = [
        migrations.AddField(
            model_name="enforcementtarget",
            name="refused_pods",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name="enforcementtarget",
            name="refused_read_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
