"""The triggers of quotas, and what the runtime role may not write."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("quotas", "0002_functions"), ("tenants", "0002_functions")]

    operations = install("quotas/sql/triggers.v1.sql")
