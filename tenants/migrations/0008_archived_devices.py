"""Months of device rows are archived, too."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_archived_months")]

    operations = [
        migrations.AlterField(
            model_name="archivedmonth",
            name="table_name",
            field=models.CharField(
                choices=[("usage", "Usage"), ("charges", "Charges"), ("devices", "Devices")],
                max_length=16,
            ),
        ),
    ]
