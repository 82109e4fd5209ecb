"""Lines of accepted credits, and the kind of a line in its key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0037_document_deliveries"),
        ("tenants", "0003_triggers"),
        ("metering", "0007_accepted_credits"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="invoiceline",
            name="invoice_line_key",
        ),
        migrations.RemoveConstraint(
            model_name="invoiceline",
            name="invoice_line_kind",
        ),
        migrations.AlterField(
            model_name="invoiceline",
            name="kind",
            field=models.CharField(
                choices=[
                    ("usage", "Usage"),
                    ("tier", "Tier"),
                    ("minimum", "Minimum"),
                    ("credit", "Credit"),
                ],
                db_default="usage",
                default="usage",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(
                fields=(
                    "invoice",
                    "kind",
                    "project",
                    "size",
                    "price_group",
                    "unit_price",
                    "service_period",
                    "tier_schedule",
                    "tier_band",
                    "tier_span",
                ),
                name="invoice_line_key",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind", "usage"),
                        ("tier_band", 0),
                        ("tier_schedule__isnull", True),
                        ("tier_span", ""),
                    ),
                    models.Q(
                        ("billed_unit_seconds", 0),
                        ("kind", "tier"),
                        ("price_group", ""),
                        ("service_period__isnull", True),
                        ("size", ""),
                        ("tier_band__gte", 1),
                        ("tier_schedule__isnull", False),
                        ("tier_span__gt", ""),
                        ("unit_price", 0),
                        ("unit_seconds", 0),
                    ),
                    models.Q(
                        ("billed_unit_seconds", 0),
                        ("kind", "minimum"),
                        ("price_group", ""),
                        ("size", ""),
                        ("tier_band", 0),
                        ("tier_schedule__isnull", True),
                        ("tier_span", ""),
                        ("unit_price", 0),
                        ("unit_seconds", 0),
                    ),
                    models.Q(
                        ("billed_unit_seconds", 0),
                        ("kind", "credit"),
                        ("price_group__gt", ""),
                        ("size__gt", ""),
                        ("tier_band", 0),
                        ("tier_schedule__isnull", True),
                        ("tier_span", ""),
                        ("unit_seconds", 0),
                    ),
                    _connector="OR",
                ),
                name="invoice_line_kind",
            ),
        ),
    ]
