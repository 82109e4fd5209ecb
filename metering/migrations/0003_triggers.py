"""The triggers of metering, and what the runtime role may not write."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0002_functions"), ("tenants", "0002_functions")]

    operations = install("metering/sql/triggers.v1.sql")
