"""Drafts of prices, previewed on last month's use."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_repricing")]

    operations = [
        migrations.CreateModel(
            name="PriceDraft",
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
                ("valid_from", models.DateTimeField()),
                ("prices", models.JSONField()),
                ("month", models.CharField(max_length=7)),
                ("effects", models.JSONField()),
                ("reason", models.TextField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("published", "Published"),
                            ("rejected", "Rejected"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("requested_by", models.CharField(max_length=200)),
                ("requested_by_id", models.CharField(max_length=64)),
                ("requested_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                (
                    "price_book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="drafts",
                        to="billing.pricebook",
                    ),
                ),
            ],
            options={"ordering": ["-requested_at", "id"]},
        ),
        migrations.AddConstraint(
            model_name="pricedraft",
            constraint=models.CheckConstraint(
                condition=models.Q(("decided_at__isnull", True), ("state", "proposed"))
                | models.Q(("decided_at__isnull", False), ("state__in", ["published", "rejected"])),
                name="price_draft_decided_has_time",
            ),
        ),
        *install("billing/sql/billing_price_drafts.v1.sql"),
    ]
