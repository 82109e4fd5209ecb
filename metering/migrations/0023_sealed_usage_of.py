"""Billing reads the usage of an hour by the keys of its facts, however many facts there are."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0022_check_usage_by_facts")]

    operations = install("metering/sql/metering_sealed_usage_of.v1.sql")
