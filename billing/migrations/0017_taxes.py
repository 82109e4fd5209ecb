"""Tax rates, tax treatments of organizations, and the tax of documents."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0016_charge_partitions"),
        ("tenants", "0002_functions"),
    ]

    operations = [
        migrations.AddField(
            model_name="invoice",
            name="tax_total",
            field=models.DecimalField(db_default=0, decimal_places=4, default=0, max_digits=20),
        ),
        migrations.CreateModel(
            name="TaxRate",
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
                ("country", models.CharField(max_length=2)),
                (
                    "category",
                    models.CharField(
                        choices=[
                            ("S", "S: standard rate"),
                            ("Z", "Z: zero rated"),
                            ("E", "E: exempt"),
                            ("AE", "AE: reverse charge"),
                            ("O", "O: outside the scope of tax"),
                        ],
                        max_length=2,
                    ),
                ),
                ("rate", models.DecimalField(decimal_places=4, max_digits=7)),
                ("exemption_text", models.CharField(blank=True, default="", max_length=500)),
                ("valid_from", models.DateField()),
                ("published_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["country", "category", "valid_from", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("withdrawn_at__isnull", True)),
                        fields=("country", "category", "valid_from"),
                        name="tax_rate_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("category", "S"), ("rate__gt", 0), ("rate__lte", 100)),
                            models.Q(("category__in", ["Z", "E", "AE", "O"]), ("rate", 0)),
                            _connector="OR",
                        ),
                        name="tax_rate_fits_category",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("category__in", ["E", "AE", "O"]), ("exemption_text__gt", "")
                            ),
                            models.Q(("category__in", ["S", "Z"]), ("exemption_text", "")),
                            _connector="OR",
                        ),
                        name="tax_rate_explains_exemption",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TaxTreatment",
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
                ("country", models.CharField(max_length=2)),
                (
                    "category",
                    models.CharField(
                        choices=[
                            ("S", "S: standard rate"),
                            ("Z", "Z: zero rated"),
                            ("E", "E: exempt"),
                            ("AE", "AE: reverse charge"),
                            ("O", "O: outside the scope of tax"),
                        ],
                        max_length=2,
                    ),
                ),
                ("valid_from", models.DateField()),
                ("published_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_treatments",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["organization__slug", "valid_from", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("withdrawn_at__isnull", True)),
                        fields=("organization", "valid_from"),
                        name="tax_treatment_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("category__in", ["S", "Z", "E", "AE", "O"])),
                        name="tax_treatment_category",
                    ),
                ],
            },
        ),
        *install(
            "billing/sql/billing_taxes.v1.sql",
            "billing/sql/billing_final_adds_up.v4.sql",
        ),
    ]
