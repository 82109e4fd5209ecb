"""Charges have no foreign keys: their statements are checked, and parents never deleted."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


def _parent(to: str, *, related_name: str = "charges", db_index: bool = False) -> models.ForeignKey:
    return models.ForeignKey(
        db_constraint=False,
        db_index=db_index,
        on_delete=django.db.models.deletion.PROTECT,
        related_name=related_name,
        to=to,
    )


class Migration(migrations.Migration):
    dependencies = [("billing", "0013_credit_notes"), ("tenants", "0003_triggers")]

    operations = [
        migrations.AlterField("charge", "cluster", _parent("tenants.cluster", related_name="+")),
        migrations.AlterField("charge", "organization", _parent("tenants.organization")),
        migrations.AlterField("charge", "project", _parent("tenants.project")),
        migrations.AlterField("charge", "price", _parent("billing.price", db_index=True)),
        migrations.AlterField("charge", "period", _parent("billing.billingperiod", db_index=True)),
        *install("billing/sql/billing_charge_parents.v1.sql"),
    ]
