"""Device figures are rows of integers with ids of facts, by month of their hour."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0021_label_sets"), ("tenants", "0007_archived_months")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=install(
                "metering/sql/metering_device_partitions.v1.sql",
                "metering/sql/metering_device_rows.v1.sql",
                "metering/sql/metering_device_checks.v1.sql",
            ),
            state_operations=[
                migrations.RemoveConstraint("deviceusage", "device_usage_unique"),
                migrations.RemoveConstraint("deviceusage", "device_usage_forward"),
                migrations.RemoveConstraint("deviceusage", "device_usage_exclusive_has_its_pod"),
                migrations.RemoveIndex("deviceusage", "device_usage_by_project"),
                migrations.RemoveIndex("deviceusage", "device_usage_by_cluster"),
                migrations.RemoveIndex("deviceusage", "device_usage_instances"),
                migrations.AlterModelOptions(
                    "deviceusage",
                    {
                        "managed": False,
                        "ordering": ["window_start", "node", "uuid", "instance_id", "begin_at"],
                    },
                ),
            ],
        )
    ]
