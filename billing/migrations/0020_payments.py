"""Due dates, payments and their allocations."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0019_journal"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="DueDate",
            fields=[
                (
                    "document",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="due_date",
                        serialize=False,
                        to="billing.invoice",
                    ),
                ),
                ("due_on", models.DateField()),
                ("payment_days", models.PositiveSmallIntegerField()),
            ],
            options={
                "ordering": ["due_on", "document"],
            },
        ),
        migrations.CreateModel(
            name="Payment",
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
                    "kind",
                    models.CharField(
                        choices=[
                            ("receipt", "Receipt"),
                            ("refund", "Refund"),
                            ("reversal", "Reversal"),
                            ("credit_note", "Credit Note"),
                        ],
                        default="receipt",
                        max_length=16,
                    ),
                ),
                ("bank_account", models.CharField(max_length=34)),
                ("bank_reference", models.CharField(max_length=140)),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("booked_on", models.DateField()),
                ("payer", models.CharField(blank=True, default="", max_length=140)),
                ("remittance", models.CharField(blank=True, default="", max_length=500)),
                ("reason", models.CharField(blank=True, default="", max_length=500)),
                ("recorded_by", models.CharField(max_length=200)),
                ("recorded_at", models.DateTimeField()),
                (
                    "document",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit",
                        to="billing.invoice",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="payments",
                        to="tenants.organization",
                    ),
                ),
                (
                    "origin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="returns",
                        to="billing.payment",
                    ),
                ),
            ],
            options={
                "ordering": ["-booked_on", "id"],
            },
        ),
        migrations.CreateModel(
            name="PaymentAllocation",
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
                ("allocated_by", models.CharField(max_length=200)),
                ("allocated_at", models.DateTimeField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="billing.invoice",
                    ),
                ),
                (
                    "payment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="billing.payment",
                    ),
                ),
                (
                    "releases",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="release",
                        to="billing.paymentallocation",
                    ),
                ),
            ],
            options={
                "ordering": ["allocated_at", "id"],
            },
        ),
        migrations.AddConstraint(
            model_name="payment",
            constraint=models.UniqueConstraint(
                fields=("bank_account", "bank_reference"), name="payment_reference_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="payment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "reversal")),
                fields=("origin",),
                name="payment_reversed_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="payment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("amount__gt", 0), ("document", None), ("kind", "receipt"), ("origin", None)
                    ),
                    models.Q(
                        ("amount__gt", 0),
                        ("document__isnull", False),
                        ("kind", "credit_note"),
                        ("origin", None),
                    ),
                    models.Q(
                        ("amount__lt", 0),
                        ("document", None),
                        ("kind__in", ["refund", "reversal"]),
                        ("origin__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="payment_kind_has_its_sign",
            ),
        ),
        migrations.AddConstraint(
            model_name="paymentallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("amount__gt", 0), ("releases", None)),
                    models.Q(("amount__lt", 0), ("releases__isnull", False)),
                    _connector="OR",
                ),
                name="allocation_release_has_its_sign",
            ),
        ),
        *install("billing/sql/billing_payments.v1.sql"),
    ]
