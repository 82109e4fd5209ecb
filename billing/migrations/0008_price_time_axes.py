"""Prices and assignments are superseded, so that a wrong one is replaced or withdrawn."""

import django.contrib.postgres.constraints
import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install

NOT_SUPERSEDED = models.Q(("superseded_at__isnull", True))


def _axes(model: str) -> list[migrations.operations.base.Operation]:
    return [
        migrations.RenameField(model_name=model, old_name="created_at", new_name="published_at"),
        migrations.AddField(
            model_name=model,
            name="superseded_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name=model,
            name="replaces",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=f"billing.{model}",
            ),
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [("billing", "0007_accrued_usage")]

    operations = [
        *_axes("price"),
        *_axes("pricebookassignment"),
        migrations.RemoveConstraint(model_name="price", name="prices_do_not_overlap"),
        migrations.AddConstraint(
            model_name="price",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                condition=NOT_SUPERSEDED,
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
        migrations.RemoveConstraint(
            model_name="pricebookassignment", name="price_book_assignments_do_not_overlap"
        ),
        migrations.AddConstraint(
            model_name="pricebookassignment",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                condition=NOT_SUPERSEDED,
                expressions=[("organization", "="), ("valid", "&&")],
                name="price_book_assignments_do_not_overlap",
                violation_error_message="The organization has a price book at that time.",
            ),
        ),
        *install(
            "billing/sql/billing_refuse_price_gap.v2.sql",
            "billing/sql/billing_superseded.v1.sql",
        ),
    ]
