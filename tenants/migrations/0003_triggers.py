"""The triggers of tenants, and what the runtime role may not write."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tenants", "0002_functions"),
    ]

    operations = install("tenants/sql/triggers.v1.sql")
