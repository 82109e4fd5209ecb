"""The tables of billing."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="InvoiceSeries",
            fields=[
                ("code", models.CharField(max_length=12, primary_key=True, serialize=False)),
                ("next_number", models.PositiveBigIntegerField(default=1)),
            ],
            options={
                "verbose_name_plural": "invoice series",
            },
        ),
        migrations.CreateModel(
            name="Price",
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
                    "size",
                    models.CharField(
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        max_length=16,
                    ),
                ),
                ("price_group", models.CharField(default="*", max_length=96)),
                ("unit_price", models.DecimalField(decimal_places=10, max_digits=20)),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["price_book__slug", "size", "price_group", "valid"],
            },
        ),
        migrations.CreateModel(
            name="PriceBook",
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
                    "slug",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "currency",
                    models.CharField(
                        max_length=3,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Z]{3}$", "Use the three letters of ISO 4217."
                            )
                        ],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="BillingPeriod",
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
                ("label", models.CharField(max_length=7)),
                ("hours", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("closed", "Closed")],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="billing_periods",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-label", "organization__slug"],
            },
        ),
        migrations.CreateModel(
            name="Invoice",
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
                        choices=[("draft", "Draft"), ("final", "Final")],
                        default="draft",
                        max_length=16,
                    ),
                ),
                ("series", models.CharField(max_length=12)),
                ("number", models.PositiveBigIntegerField(blank=True, null=True)),
                ("currency", models.CharField(max_length=3)),
                ("total", models.DecimalField(decimal_places=4, max_digits=20)),
                ("unit_seconds", models.BigIntegerField(default=0)),
                ("document", models.JSONField(default=dict)),
                ("content_sha256", models.CharField(blank=True, default="", max_length=64)),
                ("drafted_by", models.CharField(max_length=200)),
                ("drafted_by_id", models.CharField(max_length=64)),
                ("drafted_at", models.DateTimeField()),
                ("finalized_by", models.CharField(blank=True, default="", max_length=200)),
                ("finalized_at", models.DateTimeField(blank=True, null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invoices",
                        to="tenants.organization",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invoices",
                        to="billing.billingperiod",
                    ),
                ),
            ],
            options={
                "ordering": ["-period__label", "organization__slug"],
            },
        ),
        migrations.CreateModel(
            name="InvoiceLine",
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
                ("position", models.PositiveIntegerField()),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("description", models.CharField(max_length=300)),
                ("unit_seconds", models.BigIntegerField()),
                ("billed_unit_seconds", models.BigIntegerField(db_default=0, default=0)),
                ("unit_price", models.DecimalField(decimal_places=10, max_digits=20)),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="billing.invoice",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invoice_lines",
                        to="tenants.project",
                    ),
                ),
                (
                    "service_period",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="late_lines",
                        to="billing.billingperiod",
                    ),
                ),
            ],
            options={
                "ordering": ["invoice", "position"],
            },
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_id", models.BigIntegerField()),
                ("window_start", models.DateTimeField()),
                ("owner", models.CharField(blank=True, default="", max_length=150)),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("tier", models.PositiveSmallIntegerField(default=0)),
                ("unit_price", models.DecimalField(decimal_places=10, max_digits=20)),
                ("currency", models.CharField(max_length=3)),
                ("correction_id", models.UUIDField(blank=True, null=True)),
                ("unit_seconds", models.BigIntegerField()),
                ("created_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="charges",
                        to="tenants.organization",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="charges",
                        to="billing.billingperiod",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="charges",
                        to="tenants.project",
                    ),
                ),
                (
                    "line",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="charges",
                        to="billing.invoiceline",
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="charges",
                        to="billing.price",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "id"],
            },
        ),
        migrations.AddField(
            model_name="price",
            name="price_book",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="prices",
                to="billing.pricebook",
            ),
        ),
        migrations.CreateModel(
            name="PriceBookAssignment",
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
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="price_book_assignments",
                        to="tenants.organization",
                    ),
                ),
                (
                    "price_book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignments",
                        to="billing.pricebook",
                    ),
                ),
            ],
            options={
                "ordering": ["organization__slug", "valid"],
            },
        ),
        migrations.CreateModel(
            name="AccrualException",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_id", models.BigIntegerField()),
                ("window_start", models.DateTimeField()),
                ("size", models.CharField(max_length=16)),
                ("price_group", models.CharField(max_length=96)),
                ("correction_id", models.UUIDField(blank=True, null=True)),
                ("unit_seconds", models.BigIntegerField()),
                ("code", models.CharField(max_length=32)),
                ("summary", models.TextField()),
                ("remedy", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="accrual_exceptions",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-window_start", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("window_id", "project", "size", "price_group", "correction_id"),
                        name="accrual_exception_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AccruedCorrection",
            fields=[
                ("correction_id", models.UUIDField(primary_key=True, serialize=False)),
                ("window_id", models.BigIntegerField()),
                ("window_start", models.DateTimeField()),
                ("usage_unit_seconds", models.BigIntegerField()),
                ("charged_unit_seconds", models.BigIntegerField()),
                ("is_complete", models.BooleanField()),
                ("accrued_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "correction_id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("is_complete", False),
                            ("charged_unit_seconds", models.F("usage_unit_seconds")),
                            _connector="OR",
                        ),
                        name="accrued_correction_complete_means_equal",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AccruedWindow",
            fields=[
                ("window_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("window_start", models.DateTimeField()),
                ("usage_unit_seconds", models.BigIntegerField()),
                ("charged_unit_seconds", models.BigIntegerField()),
                ("is_complete", models.BooleanField()),
                ("accrued_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
            ],
            options={
                "ordering": ["window_start", "window_id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("is_complete", False),
                            ("charged_unit_seconds", models.F("usage_unit_seconds")),
                            _connector="OR",
                        ),
                        name="accrued_window_complete_means_equal",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.UniqueConstraint(
                fields=("organization", "label"), name="billing_period_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[("organization", "="), ("hours", "&&")],
                name="billing_periods_do_not_overlap",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                fields=("organization", "period"), name="invoice_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                fields=("series", "number"), name="invoice_number_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("number__isnull", True), ("state", "draft")),
                    models.Q(
                        ("content_sha256__regex", "^[0-9a-f]{64}$"),
                        ("finalized_at__isnull", False),
                        ("number__isnull", False),
                        ("state", "final"),
                    ),
                    _connector="OR",
                ),
                name="invoice_final_has_number_and_digest",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(
                fields=("invoice", "position"), name="invoice_line_position"
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(
                condition=models.Q(("line__isnull", True)),
                fields=["organization", "period"],
                name="charge_unbilled",
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(
                fields=["organization", "window_start"], name="charge_by_organization"
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(
                condition=models.Q(("correction_id__isnull", False)),
                fields=["correction_id"],
                name="charge_by_correction",
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.UniqueConstraint(
                fields=(
                    "window_id",
                    "project",
                    "owner",
                    "size",
                    "price_group",
                    "tier",
                    "price",
                    "correction_id",
                    "window_start",
                    "organization",
                ),
                name="charge_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("unit_seconds__gte", 0), ("correction_id__isnull", False), _connector="OR"
                ),
                name="charge_only_a_correction_is_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(("unit_price__gte", 0)), name="charge_price_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="price",
            constraint=models.CheckConstraint(
                condition=models.Q(("unit_price__gte", 0)), name="price_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="price",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    ("price_book", "="),
                    ("size", "="),
                    ("price_group", "="),
                    ("valid", "&&"),
                ],
                name="prices_do_not_overlap",
                violation_error_message="There is a price for this size and group at that time.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pricebookassignment",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[("organization", "="), ("valid", "&&")],
                name="price_book_assignments_do_not_overlap",
                violation_error_message="The organization has a price book at that time.",
            ),
        ),
        *install("billing/sql/billing_charge_key.v1.sql"),
    ]
