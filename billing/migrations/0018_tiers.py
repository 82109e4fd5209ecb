"""Tier schedules, and their lines on documents."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0017_taxes"),
        ("tenants", "0002_functions"),
    ]

    operations = [
        migrations.CreateModel(
            name="TierSchedule",
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
                ("name", models.CharField(max_length=200)),
                (
                    "basis",
                    models.CharField(
                        choices=[("quantity", "Unit-hours"), ("money", "List money")], max_length=16
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("graduated", "Graduated"), ("volume", "Volume")], max_length=16
                    ),
                ),
                (
                    "scope",
                    models.CharField(
                        choices=[("project", "Project"), ("organization", "Organization")],
                        max_length=16,
                    ),
                ),
                (
                    "span",
                    models.CharField(
                        choices=[("period", "Period"), ("fiscal_year", "Fiscal year")],
                        max_length=16,
                    ),
                ),
                ("year_begins", models.PositiveSmallIntegerField(default=1)),
                ("sizes", models.JSONField(blank=True, default=list)),
                ("price_groups", models.JSONField(blank=True, default=list)),
                ("first_month", models.CharField(max_length=7)),
                ("last_month", models.CharField(max_length=7)),
                ("bands", models.JSONField()),
                ("published_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["price_book__slug", "first_month", "id"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="invoiceline",
            name="invoice_line_key",
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="kind",
            field=models.CharField(
                choices=[("usage", "Usage"), ("tier", "Tier")],
                db_default="usage",
                default="usage",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="tier_band",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="tier_span",
            field=models.CharField(blank=True, db_default="", default="", max_length=7),
        ),
        migrations.AddField(
            model_name="tierschedule",
            name="price_book",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tier_schedules",
                to="billing.pricebook",
            ),
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="tier_schedule",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="lines",
                to="billing.tierschedule",
            ),
        ),
        migrations.AddIndex(
            model_name="invoiceline",
            index=models.Index(
                condition=models.Q(("kind", "tier")), fields=["invoice"], name="invoice_line_tiers"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(
                fields=(
                    "invoice",
                    "project",
                    "size",
                    "price_group",
                    "unit_price",
                    "service_period",
                    "tier_schedule",
                    "tier_band",
                    "tier_span",
                ),
                name="invoice_line_key",
                nulls_distinct=False,
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
                    _connector="OR",
                ),
                name="invoice_line_kind",
            ),
        ),
        migrations.AddConstraint(
            model_name="tierschedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("last_month__gte", models.F("first_month")),
                    ("year_begins__gte", 1),
                    ("year_begins__lte", 12),
                ),
                name="tier_schedule_months",
            ),
        ),
        *install("billing/sql/billing_tiers.v1.sql"),
    ]
