"""The tax of a credit note is checked together with what corrected its invoice before."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0023_tier_repair")]

    operations = [*install("billing/sql/billing_final_adds_up.v5.sql")]
