"""A month of unusual cost keeps the reason it was sent to review with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0014_charge_parents")]

    operations = [
        migrations.AddField(
            model_name="billingperiod",
            name="acknowledgement",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
    ]
