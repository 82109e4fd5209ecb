"""The triggers of billing, and what the runtime role may not write."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0002_functions"), ("tenants", "0002_functions")]

    operations = install("billing/sql/triggers.v1.sql")
