"""The database functions and views of billing."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_tables")]

    operations = install(
        "billing/sql/billing_keep_final_lines.v1.sql",
        "billing/sql/billing_keep_billed_charges.v1.sql",
        "billing/sql/billing_refuse_posted_charges.v1.sql",
        "billing/sql/billing_refuse_price_gap.v1.sql",
        "billing/sql/billing_number_is_used.v1.sql",
        "billing/sql/billing_final_adds_up.v1.sql",
        "billing/sql/billing_keep_charged_hours.v1.sql",
    )
