"""Each month with sealed device figures has a partition."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0016_device_rows"), ("tenants", "0008_archived_devices")]

    operations = install("metering/sql/metering_device_months.v1.sql")
