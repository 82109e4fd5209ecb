"""Price books that are a discount on another book, and the base price of each charge."""

import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install

KEY = [
    "window_id",
    "project",
    "owner",
    "size",
    "price_group",
    "tier",
    "price",
    "correction_id",
    "repricing_id",
    "window_start",
    "organization",
    "unit_price",
    "base_unit_price",
]


class Migration(migrations.Migration):
    dependencies = [("billing", "0021_journal_batches")]

    operations = [
        migrations.AddField(
            model_name="pricebook",
            name="base_book",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="discount_books",
                to="billing.pricebook",
            ),
        ),
        migrations.AddField(
            model_name="pricebook",
            name="discount_percent",
            field=models.DecimalField(blank=True, decimal_places=2, max_digits=5, null=True),
        ),
        migrations.AddConstraint(
            model_name="pricebook",
            constraint=models.CheckConstraint(
                condition=models.Q(base_book__isnull=True, discount_percent__isnull=True)
                | models.Q(
                    base_book__isnull=False,
                    discount_percent__isnull=False,
                    discount_percent__gt=0,
                    discount_percent__lte=100,
                ),
                name="price_book_discount_has_base",
            ),
        ),
        migrations.AddField(
            model_name="charge",
            name="base_unit_price",
            field=models.DecimalField(blank=True, decimal_places=10, max_digits=20, null=True),
        ),
        migrations.RemoveConstraint(model_name="charge", name="charge_unique"),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.UniqueConstraint(
                fields=KEY, name="charge_unique", nulls_distinct=False
            ),
        ),
        migrations.CreateModel(
            name="BookPrice",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("unit_price", models.DecimalField(decimal_places=10, max_digits=20)),
                (
                    "base_unit_price",
                    models.DecimalField(decimal_places=10, max_digits=20, null=True),
                ),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("superseded_at", models.DateTimeField(null=True)),
                ("is_own", models.BooleanField()),
                (
                    "price_book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="billing.pricebook",
                    ),
                ),
            ],
            options={"managed": False, "db_table": "billing_book_price"},
        ),
        *install("billing/sql/billing_book_price.v1.sql"),
    ]
