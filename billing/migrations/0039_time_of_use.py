"""Calendars of price books, and prices that are for one time-of-use band."""

import django.contrib.postgres.constraints
import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Coalesce

import tenants.domain.identifiers
from tenants.migrations._sql import install

OVERLAP = "prices_do_not_overlap"
ANY_CLUSTER = models.UUIDField().to_python("00000000-0000-0000-0000-000000000000")


class Migration(migrations.Migration):
    dependencies = [("billing", "0038_hardware_credits"), ("tenants", "0003_triggers")]

    operations = [
        migrations.CreateModel(
            name="PriceCalendar",
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
                ("time_zone", models.CharField(max_length=64)),
                ("bands", models.JSONField()),
                ("holidays", models.JSONField(blank=True, default=dict)),
                ("country", models.CharField(blank=True, default="", max_length=2)),
                ("subdivision", models.CharField(blank=True, default="", max_length=8)),
                ("last_year", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField(blank=True, null=True)),
                ("published_at", models.DateTimeField()),
                ("superseded_at", models.DateTimeField(blank=True, null=True)),
                (
                    "price_book",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calendars",
                        to="billing.pricebook",
                    ),
                ),
            ],
            options={"ordering": ["price_book__slug", "begin_at", "id"]},
        ),
        migrations.AddConstraint(
            model_name="pricecalendar",
            constraint=models.UniqueConstraint(
                condition=models.Q(superseded_at__isnull=True),
                fields=("price_book", "begin_at"),
                name="price_calendar_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="pricecalendar",
            constraint=models.CheckConstraint(
                condition=models.Q(end_at__isnull=True) | models.Q(end_at__gt=models.F("begin_at")),
                name="price_calendar_ends_after_it_begins",
            ),
        ),
        migrations.AddField(
            model_name="price",
            name="band",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.RemoveConstraint(model_name="price", name=OVERLAP),
        migrations.AddConstraint(
            model_name="price",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                name=OVERLAP,
                expressions=[
                    ("price_book", "="),
                    ("size", "="),
                    ("price_group", "="),
                    ("valid", "&&"),
                    (Coalesce("cluster", models.Value(ANY_CLUSTER)), "="),
                    ("band", "="),
                ],
                condition=models.Q(superseded_at__isnull=True),
                violation_error_message="There is a price for this key at that time.",
            ),
        ),
        *install("billing/sql/billing_book_price.v3.sql"),
        *install("billing/sql/billing_refuse_price_gap.v4.sql"),
        *install("billing/sql/billing_superseded.v3.sql"),
        *install("billing/sql/billing_count_changes.v2.sql"),
        *install("billing/sql/billing_time_of_use.v1.sql"),
    ]
