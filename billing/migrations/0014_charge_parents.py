"""Charges have no foreign keys: their statements are checked, and parents never deleted."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0013_credit_notes"), ("tenants", "0003_triggers")]

    operations = [
        migrations.AlterField(
            model_name="charge",
            name="cluster",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.cluster",
            ),
        ),
        migrations.AlterField(
            model_name="charge",
            name="organization",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="charges",
                to="tenants.organization",
            ),
        ),
        migrations.AlterField(
            model_name="charge",
            name="project",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="charges",
                to="tenants.project",
            ),
        ),
        migrations.AlterField(
            model_name="charge",
            name="price",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="charges",
                to="billing.price",
            ),
        ),
        migrations.AlterField(
            model_name="charge",
            name="period",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="charges",
                to="billing.billingperiod",
            ),
        ),
        *install("billing/sql/billing_charge_parents.v1.sql"),
    ]
