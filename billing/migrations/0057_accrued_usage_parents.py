"""Accrued usage has no foreign key: its organizations are looked up once a statement."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0056_archived_charges")]

    operations = [
        migrations.AlterField(
            model_name="accruedusage",
            name="organization",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.organization",
            ),
        ),
        *install("billing/sql/billing_accruedusage_parents.v1.sql"),
    ]
