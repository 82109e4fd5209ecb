"""Months are reviewed and approved before they close, and drafts note when they were checked."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0011_charges_by_key"), ("tenants", "0002_functions")]

    operations = [
        migrations.AlterField(
            model_name="billingperiod",
            name="state",
            field=models.CharField(
                choices=[
                    ("open", "Open"),
                    ("review", "Review"),
                    ("approved", "Approved"),
                    ("closed", "Closed"),
                ],
                default="open",
                max_length=16,
            ),
        ),
        *(
            migrations.AddField(
                model_name="billingperiod",
                name=name,
                field=models.CharField(blank=True, db_default="", default="", max_length=length),
            )
            for name, length in (
                ("reviewed_by", 200),
                ("reviewed_by_id", 64),
                ("reviewed_by_kind", 16),
                ("approved_by", 200),
            )
        ),
        *(
            migrations.AddField(
                model_name=model,
                name=name,
                field=models.DateTimeField(blank=True, null=True),
            )
            for model, name in (
                ("billingperiod", "reviewed_at"),
                ("billingperiod", "approved_at"),
                ("invoice", "checked_at"),
            )
        ),
        *install("billing/sql/billing_period_states.v1.sql"),
    ]
