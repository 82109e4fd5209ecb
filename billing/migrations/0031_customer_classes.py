"""Customer classes, and price books of a class or of all organizations."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install

WHOLE_SITE = models.UUIDField().to_python("00000000-0000-0000-0000-000000000000")


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0030_opening_balances"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="OrganizationBook",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("precedence", models.IntegerField()),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
            ],
            options={
                "db_table": "billing_organization_book",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="CustomerClass",
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
                ("created_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "customer classes",
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="CustomerClassMembership",
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
                ("generation", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("published_at", models.DateTimeField()),
                ("superseded_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["organization__slug", "valid"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="pricebookassignment",
            name="price_book_assignments_do_not_overlap",
        ),
        migrations.AlterField(
            model_name="pricebookassignment",
            name="organization",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="price_book_assignments",
                to="tenants.organization",
            ),
        ),
        migrations.AlterField(
            model_name="pricebookassignment",
            name="price_book",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="assignments",
                to="billing.pricebook",
            ),
        ),
        migrations.AddField(
            model_name="pricebookassignment",
            name="customer_class",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="price_book_assignments",
                to="billing.customerclass",
            ),
        ),
        migrations.AddConstraint(
            model_name="pricebookassignment",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                condition=models.Q(("superseded_at__isnull", True)),
                expressions=[
                    (
                        django.db.models.functions.comparison.Coalesce(
                            "organization", "customer_class", models.Value(WHOLE_SITE)
                        ),
                        "=",
                    ),
                    ("valid", "&&"),
                ],
                name="price_book_assignments_do_not_overlap",
                violation_error_message="There is an assignment at that time.",
            ),
        ),
        migrations.AddConstraint(
            model_name="pricebookassignment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("organization__isnull", True),
                    ("customer_class__isnull", True),
                    _connector="OR",
                ),
                name="price_book_assignment_is_of_one",
            ),
        ),
        migrations.AddField(
            model_name="customerclassmembership",
            name="customer_class",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="memberships",
                to="billing.customerclass",
            ),
        ),
        migrations.AddField(
            model_name="customerclassmembership",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="class_memberships",
                to="tenants.organization",
            ),
        ),
        migrations.AddField(
            model_name="customerclassmembership",
            name="replaces",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.customerclassmembership",
            ),
        ),
        migrations.AddConstraint(
            model_name="customerclassmembership",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                condition=models.Q(("superseded_at__isnull", True)),
                expressions=[("organization", "="), ("valid", "&&")],
                name="class_memberships_do_not_overlap",
                violation_error_message="The organization has a customer class at that time.",
            ),
        ),
        *install("billing/sql/billing_organization_book.v1.sql"),
    ]
