"""Accepted credits, which billing puts on documents; earlier ones were credited by hand."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0006_device_classes")]

    operations = [
        migrations.AddField(
            model_name="creditproposal",
            name="is_credited_by_hand",
            field=models.BooleanField(db_default=False, default=False),
        ),
        *install("metering/sql/metering_accepted_credits.v1.sql"),
    ]
