"""The database refuses to pay back more than a payment has left."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0025_routing")]

    operations = install("billing/sql/billing_refund_limits.v1.sql")
