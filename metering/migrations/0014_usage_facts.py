"""What usage records repeat hour after hour is stored once."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0017_device_months")]

    operations = [
        *install(
            "metering/sql/metering_fact_digest.v1.sql",
            "metering/sql/metering_number_fact.v1.sql",
            "metering/sql/metering_usagefact.v1.sql",
            "metering/sql/metering_usagerecord.v2.sql",
            "metering/sql/metering_usage.v1.sql",
            "metering/sql/metering_sealed_usage.v2.sql",
            "metering/sql/metering_check_usage.v3.sql",
            "metering/sql/metering_restore_usage.v1.sql",
        ),
        # The model is not managed: only its state changes.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable("usagerecord", "metering_usage"),
                migrations.AddField("usagerecord", "fact_id", models.BigIntegerField()),
            ]
        ),
    ]
