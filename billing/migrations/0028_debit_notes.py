"""Debit notes: documents that ask for more on lines of a final invoice."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install

EVENTS = [
    ("invoice", "Invoice"),
    ("credit_note", "Credit Note"),
    ("debit_note", "Debit Note"),
    ("accrual", "Accrual"),
    ("accrual_reversal", "Accrual Reversal"),
    ("payment", "Payment"),
    ("assignment", "Assignment"),
    ("allocation", "Allocation"),
    ("reversal", "Reversal"),
    ("refund", "Refund"),
    ("write_off", "Write Off"),
]


class Migration(migrations.Migration):
    dependencies = [("billing", "0027_price_clusters")]

    operations = [
        migrations.AlterField(
            model_name="invoice",
            name="kind",
            field=models.CharField(
                choices=[
                    ("invoice", "Invoice"),
                    ("credit_note", "Credit note"),
                    ("debit_note", "Debit note"),
                ],
                db_default="invoice",
                default="invoice",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="invoice",
            name="corrects",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="corrections",
                to="billing.invoice",
            ),
        ),
        migrations.AlterField(
            model_name="journalentry",
            name="event",
            field=models.CharField(choices=EVENTS, max_length=20),
        ),
        *install(
            "billing/sql/billing_final_adds_up.v7.sql",
            "billing/sql/billing_allocation_fits.v2.sql",
        ),
    ]
