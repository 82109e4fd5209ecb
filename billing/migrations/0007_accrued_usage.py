"""What is charged of an hour is stored by organization, and compared with changes of prices."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0006_document_checks"),
        ("metering", "0002_functions"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.AddField(
            model_name="accruedcorrection",
            name="price_mark",
            field=models.BigIntegerField(db_default=-1, default=-1),
        ),
        migrations.AddField(
            model_name="pricebook",
            name="generation",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="pricebookassignment",
            name="generation",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.CreateModel(
            name="AccruedUsage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_id", models.BigIntegerField()),
                ("window_start", models.DateTimeField()),
                ("used_unit_seconds", models.BigIntegerField()),
                ("charged_unit_seconds", models.BigIntegerField()),
                ("unpriced_unit_seconds", models.BigIntegerField()),
                ("price_mark", models.BigIntegerField()),
                ("accrued_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "accrued usage",
                "ordering": ["window_start", "window_id", "organization"],
                "indexes": [
                    models.Index(
                        fields=["organization", "window_start"], name="accrued_usage_by_hour"
                    ),
                    models.Index(
                        condition=~models.Q(unpriced_unit_seconds=0),
                        fields=["organization", "price_mark"],
                        name="accrued_usage_unpriced",
                    ),
                    models.Index(
                        condition=models.Q(price_mark__lt=0) & ~models.Q(unpriced_unit_seconds=0),
                        fields=["accrued_at"],
                        name="accrued_usage_unrated",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("window_id", "organization"), name="accrued_usage_unique"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            used_unit_seconds=models.F("charged_unit_seconds")
                            + models.F("unpriced_unit_seconds")
                        ),
                        name="accrued_usage_is_charged_or_unpriced",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            charged_unit_seconds__gte=0, unpriced_unit_seconds__gte=0
                        ),
                        name="accrued_usage_not_negative",
                    ),
                ],
            },
        ),
        *install(
            "billing/sql/billing_price_mark.v1.sql",
            "billing/sql/billing_count_changes.v1.sql",
            "billing/sql/billing_accruedusage.v1.sql",
        ),
    ]
