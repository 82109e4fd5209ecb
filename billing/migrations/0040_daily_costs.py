"""Charges added up by local day, the hours whose charges changed since, and saved views of both."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Model

import tenants.domain.identifiers
from tenants.migrations._sql import install


def reference(to: str) -> "models.ForeignKey[Model, Model]":
    """Return a reference that is neither checked nor indexed, as those of charges are not."""
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to=to,
    )


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("billing", "0039_time_of_use"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangedHour",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_start", models.DateTimeField()),
                ("organization", reference("tenants.organization")),
            ],
            options={"ordering": ["id"]},
        ),
        migrations.CreateModel(
            name="DailyCost",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("day", models.DateField()),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("unit_price", models.DecimalField(decimal_places=10, max_digits=20)),
                (
                    "base_unit_price",
                    models.DecimalField(blank=True, decimal_places=10, max_digits=20, null=True),
                ),
                ("currency", models.CharField(max_length=3)),
                ("unit_seconds", models.BigIntegerField()),
                ("cluster", reference("tenants.cluster")),
                ("organization", reference("tenants.organization")),
                ("project", reference("tenants.project")),
            ],
            options={
                "ordering": ["-day", "id"],
                "indexes": [models.Index(fields=["day"], name="daily_cost_by_day")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "organization",
                            "day",
                            "project",
                            "owner",
                            "cluster",
                            "size",
                            "price_group",
                            "unit_price",
                            "base_unit_price",
                            "currency",
                        ),
                        name="daily_cost_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CostView",
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
                ("name", models.CharField(max_length=64)),
                ("query", models.CharField(blank=True, max_length=1000)),
                ("created_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("person", "name"), name="cost_view_unique")
                ],
            },
        ),
        *install("billing/sql/billing_daily_costs.v1.sql"),
    ]
