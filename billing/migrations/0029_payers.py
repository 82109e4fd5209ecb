"""The payer of a payment is taken back while nothing of it is allocated or paid back."""

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
]


class Migration(migrations.Migration):
    dependencies = [("billing", "0028_debit_notes")]

    operations = [
        migrations.AlterField(
            model_name="journalentry",
            name="event",
            field=models.CharField(choices=EVENTS, max_length=20),
        ),
        *install("billing/sql/billing_payment_payer.v1.sql"),
    ]
