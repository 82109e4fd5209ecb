"""Numbers begin anew each year, and the database checks what becomes final."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0005_refused_drafts"), ("tenants", "0002_functions")]

    operations = [
        *install("billing/sql/billing_series_unguarded.v1.sql"),
        migrations.AddField(
            model_name="invoice",
            name="content",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AddField(
            model_name="invoice",
            name="drafted_by_kind",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.AddField(
            model_name="invoice",
            name="issue_year",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="invoiceseries",
            name="first_number",
            field=models.PositiveBigIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="invoiceseries",
            name="last_issued_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="invoice",
            name="series",
            field=models.CharField(max_length=20),
        ),
        migrations.AlterField(
            model_name="invoiceseries",
            name="code",
            field=models.CharField(max_length=20, primary_key=True, serialize=False),
        ),
        *install(
            "billing/sql/billing_numbers_by_year.v1.sql",
            "billing/sql/billing_final_adds_up.v2.sql",
        ),
    ]
