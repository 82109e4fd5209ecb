"""Issuers, recipients, routes of projects, and several documents of a billing run."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0024_credit_taxes"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="Issuer",
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
                ("address", models.TextField(blank=True, default="", max_length=1000)),
                ("tax_id", models.CharField(blank=True, default="", max_length=64)),
                ("bank_account", models.CharField(blank=True, default="", max_length=64)),
                (
                    "series",
                    models.CharField(
                        max_length=12,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Z0-9-]{1,12}$",
                                "Use 1 to 12 capital letters, digits and hyphens.",
                            )
                        ],
                    ),
                ),
                (
                    "credit_series",
                    models.CharField(
                        max_length=12,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Z0-9-]{1,12}$",
                                "Use 1 to 12 capital letters, digits and hyphens.",
                            )
                        ],
                    ),
                ),
                (
                    "first_number",
                    models.PositiveIntegerField(
                        default=1, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="ProjectRoute",
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
                ("purchase_order", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["project__organization__slug", "project__slug"],
            },
        ),
        migrations.CreateModel(
            name="Recipient",
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
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("address", models.TextField(blank=True, default="", max_length=1000)),
                ("tax_id", models.CharField(blank=True, default="", max_length=64)),
                ("buyer_reference", models.CharField(blank=True, default="", max_length=100)),
                ("contact", models.CharField(blank=True, default="", max_length=200)),
                ("email", models.EmailField(blank=True, default="", max_length=254)),
                ("cost_center", models.CharField(blank=True, default="", max_length=64)),
                ("tax_country", models.CharField(blank=True, default="", max_length=2)),
                ("tax_category", models.CharField(blank=True, default="", max_length=2)),
                ("created_at", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ["organization__slug", "slug"],
            },
        ),
        migrations.CreateModel(
            name="RunRoute",
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
                ("run", models.PositiveSmallIntegerField()),
                ("purchase_order", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "ordering": ["period", "run", "project"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="invoice",
            name="invoice_unique",
        ),
        migrations.AddField(
            model_name="invoice",
            name="purchase_order",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddConstraint(
            model_name="issuer",
            constraint=models.CheckConstraint(
                condition=models.Q(("series", models.F("credit_series")), _negated=True),
                name="issuer_has_two_series",
            ),
        ),
        migrations.AddField(
            model_name="invoice",
            name="issuer",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="invoices",
                to="billing.issuer",
            ),
        ),
        migrations.AddField(
            model_name="projectroute",
            name="issuer",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="routes",
                to="billing.issuer",
            ),
        ),
        migrations.AddField(
            model_name="projectroute",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="routes",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="projectroute",
            name="project",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="route",
                to="tenants.project",
            ),
        ),
        migrations.AddField(
            model_name="recipient",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="recipients",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="projectroute",
            name="recipient",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="routes",
                to="billing.recipient",
            ),
        ),
        migrations.AddField(
            model_name="invoice",
            name="recipient",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="invoices",
                to="billing.recipient",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                condition=models.Q(("corrects__isnull", True)),
                fields=("organization", "period", "run", "issuer", "recipient", "purchase_order"),
                name="invoice_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddField(
            model_name="runroute",
            name="issuer",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="run_routes",
                to="billing.issuer",
            ),
        ),
        migrations.AddField(
            model_name="runroute",
            name="period",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="routes",
                to="billing.billingperiod",
            ),
        ),
        migrations.AddField(
            model_name="runroute",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="run_routes",
                to="tenants.project",
            ),
        ),
        migrations.AddField(
            model_name="runroute",
            name="recipient",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="run_routes",
                to="billing.recipient",
            ),
        ),
        migrations.AddConstraint(
            model_name="recipient",
            constraint=models.UniqueConstraint(
                fields=("organization", "slug"), name="recipient_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="recipient",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("tax_category", ""), ("tax_country", "")),
                    models.Q(
                        ("tax_category__in", ["S", "Z", "E", "AE", "O"]), ("tax_country__gt", "")
                    ),
                    _connector="OR",
                ),
                name="recipient_tax_is_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="runroute",
            constraint=models.UniqueConstraint(
                fields=("period", "run", "project"), name="run_route_unique"
            ),
        ),
        *install(
            "billing/sql/billing_routing.v1.sql",
            "billing/sql/billing_final_adds_up.v6.sql",
        ),
    ]
