"""Usage is checked by statement instead of by foreign key, and allocations are updated in place."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0011_archived_usage")]

    operations = install(
        "metering/sql/metering_check_usage.v2.sql",
        "metering/sql/metering_allocation_space.v1.sql",
    )
