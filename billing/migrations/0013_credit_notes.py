"""Credit notes, and further billing runs of a month."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0012_period_states"), ("tenants", "0002_functions")]

    operations = [
        migrations.AddField(
            model_name="invoice",
            name="kind",
            field=models.CharField(
                choices=[("invoice", "Invoice"), ("credit_note", "Credit note")],
                db_default="invoice",
                default="invoice",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="invoice",
            name="run",
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="invoice",
            name="run_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
        migrations.AddField(
            model_name="invoice",
            name="corrects",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="credit_notes",
                to="billing.invoice",
            ),
        ),
        migrations.RemoveConstraint(model_name="invoice", name="invoice_unique"),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("corrects__isnull", True)),
                fields=("organization", "period", "run"),
                name="invoice_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("corrects__isnull", False)),
                fields=("organization", "period", "run"),
                name="invoice_credit_unique",
            ),
        ),
        *install("billing/sql/billing_final_adds_up.v3.sql"),
    ]
