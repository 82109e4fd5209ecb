"""Accounting months close once they are over, and billing periods with their documents."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0045_e_invoices")]

    operations = install(
        "billing/sql/billing_accounting_month_is_over.v1.sql",
        "billing/sql/billing_closed_is_billed.v1.sql",
    )
