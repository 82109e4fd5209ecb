"""Charges have the time of their window and the organization of their project and period."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0003_triggers"),
        ("metering", "0002_functions"),
        ("tenants", "0001_tables"),
    ]

    operations = install("billing/sql/billing_refuse_posted_charges.v2.sql")
