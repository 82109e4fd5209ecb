"""Charges belong to lines by their key: the link from charge to line goes."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0010_price_drafts"), ("tenants", "0002_functions")]

    operations = [
        *install(
            "billing/sql/billing_charges_by_key.v1.sql",
            "billing/sql/billing_refuse_posted_charges.v3.sql",
        ),
        migrations.RemoveIndex(model_name="charge", name="charge_unbilled"),
        migrations.RemoveField(model_name="charge", name="line"),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(
                fields=(
                    "invoice",
                    "project",
                    "size",
                    "price_group",
                    "unit_price",
                    "service_period",
                ),
                name="invoice_line_key",
                nulls_distinct=False,
            ),
        ),
    ]
