"""Prices that are for one cluster."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Coalesce

from tenants.migrations._sql import install

OVERLAP = "prices_do_not_overlap"
ANY_CLUSTER = models.UUIDField().to_python("00000000-0000-0000-0000-000000000000")


class Migration(migrations.Migration):
    dependencies = [("billing", "0026_refund_limits"), ("tenants", "0003_triggers")]

    operations = [
        migrations.AddField(
            model_name="price",
            name="cluster",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.cluster",
            ),
        ),
        migrations.RemoveConstraint(model_name="price", name=OVERLAP),
        migrations.AddConstraint(
            model_name="price",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                name=OVERLAP,
                expressions=[
                    ("price_book", "="),
                    ("size", "="),
                    ("price_group", "="),
                    ("valid", "&&"),
                    (Coalesce("cluster", models.Value(ANY_CLUSTER)), "="),
                ],
                condition=models.Q(superseded_at__isnull=True),
                violation_error_message="There is a price for this key at that time.",
            ),
        ),
        *install("billing/sql/billing_book_price.v2.sql"),
        *install("billing/sql/billing_refuse_price_gap.v3.sql"),
        *install("billing/sql/billing_superseded.v2.sql"),
    ]
