"""Batches of the journal."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0020_payments"),
    ]

    operations = [
        migrations.CreateModel(
            name="JournalBatch",
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
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("month", models.CharField(max_length=7)),
                ("layout", models.CharField(max_length=16)),
                ("entries", models.PositiveIntegerField()),
                ("content", models.TextField()),
                ("content_sha256", models.CharField(max_length=64)),
                ("created_by", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "journal batches",
                "ordering": ["-number"],
            },
        ),
        migrations.CreateModel(
            name="BatchedEntry",
            fields=[
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="batched",
                        serialize=False,
                        to="billing.journalentry",
                    ),
                ),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="batched",
                        to="billing.journalbatch",
                    ),
                ),
            ],
            options={
                "ordering": ["batch", "entry"],
            },
        ),
        *install("billing/sql/billing_journal_batches.v1.sql"),
    ]
