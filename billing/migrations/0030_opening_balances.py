"""Opening balances, and allocations of payments to them."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0029_payers"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="OpeningBalance",
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
                ("reference", models.CharField(max_length=64)),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("dated_on", models.DateField()),
                ("due_on", models.DateField(blank=True, null=True)),
                ("recorded_by", models.CharField(max_length=200)),
                ("recorded_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["-dated_on", "id"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="payment",
            name="payment_kind_has_its_sign",
        ),
        migrations.AlterField(
            model_name="journalentry",
            name="event",
            field=models.CharField(
                choices=[
                    ("invoice", "Invoice"),
                    ("credit_note", "Credit Note"),
                    ("debit_note", "Debit Note"),
                    ("accrual", "Accrual"),
                    ("accrual_reversal", "Accrual Reversal"),
                    ("payment", "Payment"),
                    ("assignment", "Assignment"),
                    ("unassignment", "Unassignment"),
                    ("allocation", "Allocation"),
                    ("reversal", "Reversal"),
                    ("refund", "Refund"),
                    ("write_off", "Write Off"),
                    ("opening_balance", "Opening Balance"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="payment",
            name="kind",
            field=models.CharField(
                choices=[
                    ("receipt", "Receipt"),
                    ("refund", "Refund"),
                    ("reversal", "Reversal"),
                    ("credit_note", "Credit Note"),
                    ("opening_balance", "Opening Balance"),
                ],
                default="receipt",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="paymentallocation",
            name="document",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="billing.invoice",
            ),
        ),
        migrations.AddConstraint(
            model_name="payment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("amount__gt", 0),
                        ("document", None),
                        ("kind__in", ["receipt", "opening_balance"]),
                        ("origin", None),
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
        migrations.AddField(
            model_name="openingbalance",
            name="credit",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="opening_balance",
                to="billing.payment",
            ),
        ),
        migrations.AddField(
            model_name="openingbalance",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="opening_balances",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="paymentallocation",
            name="opening_balance",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="allocations",
                to="billing.openingbalance",
            ),
        ),
        migrations.AddConstraint(
            model_name="paymentallocation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("document__isnull", False), ("opening_balance", None)),
                    models.Q(("document", None), ("opening_balance__isnull", False)),
                    _connector="OR",
                ),
                name="allocation_settles_one_item",
            ),
        ),
        migrations.AddConstraint(
            model_name="openingbalance",
            constraint=models.UniqueConstraint(
                fields=("organization", "reference"), name="opening_balance_reference_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="openingbalance",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("amount__gt", 0), ("credit", None), ("due_on__isnull", False)),
                    models.Q(("amount__lt", 0), ("credit__isnull", False), ("due_on", None)),
                    _connector="OR",
                ),
                name="opening_balance_is_owed_or_credit",
            ),
        ),
        *install(
            "billing/sql/billing_opening_balances.v1.sql",
            "billing/sql/billing_allocation_fits.v3.sql",
        ),
    ]
