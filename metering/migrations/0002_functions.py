"""The database functions and views of metering."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0001_tables")]

    operations = install(
        "metering/sql/metering_keep_sealed_usage.v1.sql",
        "metering/sql/metering_ensure_partitions.v1.sql",
        "metering/sql/metering_sealed_window.v1.sql",
        "metering/sql/metering_sealed_usage.v1.sql",
        "metering/sql/metering_posted_is_written.v1.sql",
        "metering/sql/metering_posted_correction.v1.sql",
        "metering/sql/metering_check_device_usage.v1.sql",
        "metering/sql/metering_keep_sealed_device_usage.v1.sql",
        "metering/sql/metering_check_usage_activity.v1.sql",
        "metering/sql/metering_keep_sealed_capacity.v1.sql",
        "metering/sql/metering_refuse_sealed_delete.v1.sql",
        "metering/sql/metering_keep_metered_binding.v1.sql",
        "metering/sql/metering_move_capacity.v1.sql",
    )
