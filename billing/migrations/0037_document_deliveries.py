"""Deliveries of documents and of reminders."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0036_reminders"),
    ]

    operations = [
        migrations.CreateModel(
            name="DocumentDelivery",
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
                    "channel",
                    models.CharField(
                        choices=[
                            ("mail", "Mail"),
                            ("webhook", "Webhook"),
                            ("post", "Post"),
                            ("portal", "Portal"),
                        ],
                        max_length=16,
                    ),
                ),
                ("recipient", models.CharField(max_length=500)),
                ("sent_at", models.DateTimeField()),
                (
                    "notification_delivery_id",
                    models.UUIDField(blank=True, editable=False, null=True, unique=True),
                ),
                ("recorded_by", models.CharField(max_length=200)),
                ("recorded_at", models.DateTimeField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="billing.invoice",
                    ),
                ),
                (
                    "reminder",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="billing.reminder",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "document deliveries",
                "ordering": ["-sent_at", "id"],
            },
        ),
        *install("billing/sql/billing_document_deliveries.v1.sql"),
    ]
