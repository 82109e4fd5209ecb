"""Reminders of overdue invoices, and stops of them."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0035_write_offs"),
    ]

    operations = [
        migrations.CreateModel(
            name="Reminder",
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
                ("level", models.PositiveSmallIntegerField()),
                ("days_overdue", models.PositiveIntegerField()),
                ("open_amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("reminded_on", models.DateField()),
                ("created_at", models.DateTimeField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reminders",
                        to="billing.invoice",
                    ),
                ),
            ],
            options={
                "ordering": ["-reminded_on", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("document", "level"), name="reminder_level_unique"
                    ),
                    models.UniqueConstraint(
                        fields=("document", "reminded_on"), name="reminder_once_a_day"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReminderStop",
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
                ("reason", models.CharField(max_length=500)),
                ("stopped_by", models.CharField(max_length=200)),
                ("stopped_at", models.DateTimeField()),
                ("continue_reason", models.CharField(blank=True, default="", max_length=500)),
                ("continued_by", models.CharField(blank=True, default="", max_length=200)),
                ("continued_at", models.DateTimeField(blank=True, null=True)),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reminder_stops",
                        to="billing.invoice",
                    ),
                ),
            ],
            options={
                "ordering": ["-stopped_at", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("continued_at__isnull", True)),
                        fields=("document",),
                        name="reminder_stop_once",
                    )
                ],
            },
        ),
        *install("billing/sql/billing_reminders.v1.sql"),
    ]
