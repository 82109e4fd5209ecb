"""Currencies and time zones are known ones, whoever writes them."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_notification_preferences")]

    operations = install(
        "tenants/sql/ledger_refuse.v2.sql",
        "tenants/sql/currency_is_known.v1.sql",
        "tenants/sql/time_zone_is_known.v1.sql",
    )
