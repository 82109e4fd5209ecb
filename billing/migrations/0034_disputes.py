"""Disputes of final documents, with their lines and messages."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0033_minimum_charges"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="Dispute",
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
                            ("open", "Open"),
                            ("withdrawn", "Withdrawn"),
                            ("rejected", "Rejected"),
                            ("accepted", "Accepted"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("is_whole", models.BooleanField()),
                ("currency", models.CharField(max_length=3)),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("reason", models.CharField(max_length=500)),
                ("opened_by", models.CharField(max_length=200)),
                ("opened_by_id", models.CharField(max_length=64)),
                ("opened_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_reason", models.CharField(blank=True, default="", max_length=500)),
                (
                    "credit_note",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="accepted_dispute",
                        to="billing.invoice",
                    ),
                ),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="disputes",
                        to="billing.invoice",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="disputes",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-opened_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="DisputedLine",
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
                (
                    "dispute",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="billing.dispute",
                    ),
                ),
                (
                    "line",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="disputed",
                        to="billing.invoiceline",
                    ),
                ),
            ],
            options={
                "ordering": ["dispute", "line__position"],
            },
        ),
        migrations.CreateModel(
            name="DisputeMessage",
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
                ("text", models.CharField(max_length=2000)),
                ("written_by", models.CharField(max_length=200)),
                ("written_by_id", models.CharField(max_length=64)),
                ("written_at", models.DateTimeField()),
                (
                    "dispute",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="messages",
                        to="billing.dispute",
                    ),
                ),
            ],
            options={
                "ordering": ["written_at", "id"],
            },
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "open")),
                fields=("document",),
                name="dispute_open_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gt", 0)), name="dispute_is_of_an_amount"
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at__isnull", True), ("state", "open")),
                    models.Q(
                        models.Q(("state", "open"), _negated=True), ("decided_at__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="dispute_decided_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="disputedline",
            constraint=models.UniqueConstraint(
                fields=("dispute", "line"), name="disputed_line_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="disputedline",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gt", 0)), name="disputed_line_has_amount"
            ),
        ),
        *install("billing/sql/billing_disputes.v1.sql"),
    ]
