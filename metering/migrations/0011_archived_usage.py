"""A month of usage that is archived gets no new partition, and can be restored."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0009_pods_by_name"), ("tenants", "0007_archived_months")]

    operations = install(
        "metering/sql/metering_guard_partition.v1.sql",
        "metering/sql/metering_ensure_partitions.v2.sql",
    )
