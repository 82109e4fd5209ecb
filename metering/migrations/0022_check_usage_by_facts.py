"""Whether a pod's usage is of two organizations is looked up where its facts are of two."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0018_window_parts")]

    operations = install("metering/sql/metering_check_usage.v4.sql")
