"""Tier schedules that replace others from a month on."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0022_discount_books")]

    operations = [
        migrations.AddField(
            model_name="tierschedule",
            name="replaces",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replaced_by",
                to="billing.tierschedule",
            ),
        ),
        migrations.AddField(
            model_name="tierschedule",
            name="superseded_from",
            field=models.CharField(blank=True, db_default="", default="", max_length=7),
        ),
        *install("billing/sql/billing_tiers.v2.sql"),
    ]
