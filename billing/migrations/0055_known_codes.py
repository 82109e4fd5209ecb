"""Months begin open; currencies and time zones are known ones."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0054_changes"), ("tenants", "0006_known_codes")]

    operations = install(
        "billing/sql/billing_period_begins_open.v1.sql",
        "billing/sql/billing_known_codes.v1.sql",
    )
