"""The journal: accounts, balanced entries, and closed accounting months."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0018_tiers"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="AccountingMonth",
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
                ("label", models.CharField(max_length=7, unique=True)),
                ("closed_at", models.DateTimeField()),
                ("closed_by", models.CharField(max_length=200)),
            ],
            options={
                "ordering": ["-label"],
            },
        ),
        migrations.CreateModel(
            name="JournalEntry",
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
                    "event",
                    models.CharField(
                        choices=[
                            ("invoice", "Invoice"),
                            ("credit_note", "Credit Note"),
                            ("accrual", "Accrual"),
                            ("accrual_reversal", "Accrual Reversal"),
                            ("payment", "Payment"),
                            ("assignment", "Assignment"),
                            ("allocation", "Allocation"),
                            ("reversal", "Reversal"),
                            ("refund", "Refund"),
                            ("write_off", "Write Off"),
                        ],
                        max_length=20,
                    ),
                ),
                ("source_key", models.CharField(max_length=120, unique=True)),
                ("currency", models.CharField(max_length=3)),
                ("document_on", models.DateField()),
                ("posting_on", models.DateField()),
                ("reason", models.CharField(max_length=500)),
                ("posted_by", models.CharField(max_length=200)),
                ("posted_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="journal_entries",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "journal entries",
                "ordering": ["posting_on", "id"],
            },
        ),
        migrations.CreateModel(
            name="LedgerAccount",
            fields=[
                ("code", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("number", models.CharField(max_length=9, unique=True)),
                ("name", models.CharField(max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("asset", "Asset"),
                            ("liability", "Liability"),
                            ("income", "Income"),
                            ("expense", "Expense"),
                        ],
                        max_length=16,
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("number__regex", "^[0-9]{4,9}$")),
                        name="ledger_account_number_is_digits",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Posting",
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
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="postings",
                        to="billing.ledgeraccount",
                    ),
                ),
                (
                    "entry",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="postings",
                        to="billing.journalentry",
                    ),
                ),
            ],
            options={
                "ordering": ["entry", "account"],
            },
        ),
        migrations.AddConstraint(
            model_name="journalentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("posting_on__gte", models.F("document_on"))),
                name="journal_entry_is_posted_on_its_date_or_later",
            ),
        ),
        migrations.AddConstraint(
            model_name="posting",
            constraint=models.UniqueConstraint(fields=("entry", "account"), name="posting_unique"),
        ),
        migrations.AddConstraint(
            model_name="posting",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount", 0), _negated=True), name="posting_is_of_an_amount"
            ),
        ),
        *install("billing/sql/billing_journal.v1.sql"),
    ]
