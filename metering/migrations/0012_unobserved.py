from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0011_inconsistent_metrics")]

    operations = [
        migrations.AddField(
            model_name="meteringwindow",
            name="unobserved_seconds",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="meteringwindow",
            name="longest_hole_seconds",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="meteringwindow",
            name="hidden_unit_seconds_max",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="meteringwindow",
            name="scrape_targets",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
    ]
