"""Months remember when the sweep last failed to draft them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0004_charge_keys")]

    operations = [
        migrations.AddField(
            model_name="billingperiod",
            name="draft_refused_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
