"""Device rows of an hour do not differ in their organization only."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0003_triggers"), ("tenants", "0001_tables")]

    operations = install("metering/sql/metering_check_device_usage.v2.sql")
