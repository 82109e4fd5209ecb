"""Charges are partitioned by month of their hour."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0015_acknowledgement"), ("tenants", "0003_triggers")]

    operations = install("billing/sql/billing_charge_partitions.v1.sql")
