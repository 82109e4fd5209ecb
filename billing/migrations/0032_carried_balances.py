"""Carried balances: what a document brings forward, and what it leaves to the next one."""

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
    ("unassignment", "Unassignment"),
    ("allocation", "Allocation"),
    ("reversal", "Reversal"),
    ("refund", "Refund"),
    ("write_off", "Write Off"),
    ("opening_balance", "Opening Balance"),
    ("carried", "Carried"),
]


class Migration(migrations.Migration):
    dependencies = [("billing", "0031_customer_classes")]

    operations = [
        migrations.AddField(
            model_name="invoice",
            name="brought_forward",
            field=models.DecimalField(db_default=0, decimal_places=4, default=0, max_digits=20),
        ),
        migrations.AddField(
            model_name="invoice",
            name="carried_forward",
            field=models.DecimalField(db_default=0, decimal_places=4, default=0, max_digits=20),
        ),
        migrations.AlterField(
            model_name="journalentry",
            name="event",
            field=models.CharField(choices=EVENTS, max_length=20),
        ),
        migrations.AlterField(
            model_name="payment",
            name="kind",
            field=models.CharField(
                choices=[
                    ("receipt", "Receipt"),
                    ("refund", "Refund"),
                    ("reversal", "Reversal"),
                    ("credit_note", "Credit Note"),
                    ("opening_balance", "Opening Balance"),
                    ("carried", "Carried"),
                ],
                default="receipt",
                max_length=16,
            ),
        ),
        migrations.RemoveConstraint(model_name="payment", name="payment_kind_has_its_sign"),
        migrations.AddConstraint(
            model_name="payment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    kind__in=["receipt", "opening_balance"],
                    amount__gt=0,
                    origin=None,
                    document=None,
                )
                | models.Q(
                    kind__in=["credit_note", "carried"],
                    amount__gt=0,
                    origin=None,
                    document__isnull=False,
                )
                | models.Q(
                    kind__in=["refund", "reversal"],
                    amount__lt=0,
                    origin__isnull=False,
                    document=None,
                ),
                name="payment_kind_has_its_sign",
            ),
        ),
        *install(
            "billing/sql/billing_carried.v1.sql",
            "billing/sql/billing_allocation_fits.v4.sql",
        ),
    ]
