"""Minimum charges of organizations, and lines of what months lack to them."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0032_carried_balances"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="MinimumCharge",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("first_month", models.CharField(max_length=7)),
                ("last_month", models.CharField(blank=True, default="", max_length=7)),
                ("published_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                ("superseded_from", models.CharField(blank=True, default="", max_length=7)),
            ],
            options={
                "ordering": ["organization__slug", "first_month", "id"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="invoiceline",
            name="invoice_line_kind",
        ),
        migrations.AlterField(
            model_name="invoiceline",
            name="kind",
            field=models.CharField(
                choices=[("usage", "Usage"), ("tier", "Tier"), ("minimum", "Minimum")],
                db_default="usage",
                default="usage",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind", "usage"),
                        ("tier_band", 0),
                        ("tier_schedule__isnull", True),
                        ("tier_span", ""),
                    ),
                    models.Q(
                        ("billed_unit_seconds", 0),
                        ("kind", "tier"),
                        ("price_group", ""),
                        ("service_period__isnull", True),
                        ("size", ""),
                        ("tier_band__gte", 1),
                        ("tier_schedule__isnull", False),
                        ("tier_span__gt", ""),
                        ("unit_price", 0),
                        ("unit_seconds", 0),
                    ),
                    models.Q(
                        ("billed_unit_seconds", 0),
                        ("kind", "minimum"),
                        ("price_group", ""),
                        ("size", ""),
                        ("tier_band", 0),
                        ("tier_schedule__isnull", True),
                        ("tier_span", ""),
                        ("unit_price", 0),
                        ("unit_seconds", 0),
                    ),
                    _connector="OR",
                ),
                name="invoice_line_kind",
            ),
        ),
        migrations.AddField(
            model_name="minimumcharge",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="minimum_charges",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="minimumcharge",
            name="replaces",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replaced_by",
                to="billing.minimumcharge",
            ),
        ),
        migrations.AddConstraint(
            model_name="minimumcharge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("amount__gte", 0),
                    models.Q(
                        ("last_month", ""),
                        ("last_month__gte", models.F("first_month")),
                        _connector="OR",
                    ),
                ),
                name="minimum_charge_months",
            ),
        ),
        *install("billing/sql/billing_minimums.v1.sql"),
    ]
