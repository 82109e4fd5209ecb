"""E-invoices are files of a document."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0043_charge_checks")]

    operations = [
        migrations.AlterField(
            model_name="documentfile",
            name="kind",
            field=models.CharField(
                choices=[
                    ("pdf", "PDF"),
                    ("cii", "E-invoice, CII"),
                    ("ubl", "E-invoice, UBL"),
                ],
                max_length=16,
            ),
        ),
    ]
