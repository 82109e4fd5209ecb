"""Repricings of a month, and the charges they make."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install

KEY = (
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
)


class Migration(migrations.Migration):
    dependencies = [("billing", "0008_price_time_axes"), ("tenants", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="Repricing",
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
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("posted", "Posted"),
                            ("rejected", "Rejected"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField()),
                ("changes", models.JSONField()),
                ("currency", models.CharField(max_length=3)),
                ("before", models.DecimalField(decimal_places=4, max_digits=20)),
                ("after", models.DecimalField(decimal_places=4, max_digits=20)),
                ("requested_by", models.CharField(max_length=200)),
                ("requested_by_id", models.CharField(max_length=64)),
                ("requested_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.TextField(blank=True, default="")),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="repricings",
                        to="tenants.organization",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="repricings",
                        to="billing.billingperiod",
                    ),
                ),
            ],
            options={"ordering": ["-requested_at", "id"]},
        ),
        migrations.AddConstraint(
            model_name="repricing",
            constraint=models.CheckConstraint(
                condition=models.Q(("decided_at__isnull", True), ("state", "proposed"))
                | models.Q(("decided_at__isnull", False), ("state__in", ["posted", "rejected"])),
                name="repricing_decided_has_time",
            ),
        ),
        migrations.AddField(
            model_name="charge",
            name="repricing_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.RemoveConstraint(model_name="charge", name="charge_unique"),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.UniqueConstraint(
                fields=KEY, name="charge_unique", nulls_distinct=False
            ),
        ),
        migrations.RemoveConstraint(
            model_name="charge", name="charge_only_a_correction_is_negative"
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("unit_seconds__gte", 0),
                    ("correction_id__isnull", False),
                    ("repricing_id__isnull", False),
                    _connector="OR",
                ),
                name="charge_only_a_correction_is_negative",
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(
                condition=models.Q(("repricing_id__isnull", False)),
                fields=["repricing_id"],
                name="charge_by_repricing",
            ),
        ),
        *install("billing/sql/billing_check_repriced.v1.sql"),
    ]
