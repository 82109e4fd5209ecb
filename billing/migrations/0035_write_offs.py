"""Write-offs of what is open of final documents."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0034_disputes"),
        ("tenants", "0003_triggers"),
    ]

    operations = [
        migrations.CreateModel(
            name="WriteOff",
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
                        choices=[
                            ("proposed", "Proposed"),
                            ("rejected", "Rejected"),
                            ("posted", "Posted"),
                            ("reversed", "Reversed"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("currency", models.CharField(max_length=3)),
                ("amount", models.DecimalField(decimal_places=4, max_digits=20)),
                ("reason", models.CharField(max_length=500)),
                ("requested_by", models.CharField(max_length=200)),
                ("requested_by_id", models.CharField(max_length=64)),
                ("requested_at", models.DateTimeField()),
                ("decided_by", models.CharField(blank=True, default="", max_length=200)),
                ("decided_by_id", models.CharField(blank=True, default="", max_length=64)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_note", models.CharField(blank=True, default="", max_length=500)),
                ("reversed_by", models.CharField(blank=True, default="", max_length=200)),
                ("reversed_at", models.DateTimeField(blank=True, null=True)),
                ("reversal_reason", models.CharField(blank=True, default="", max_length=500)),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="write_offs",
                        to="billing.invoice",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="write_offs",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-requested_at", "id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "proposed")),
                        fields=("document",),
                        name="write_off_proposed_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0)), name="write_off_is_of_an_amount"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", True),
                                ("reversed_at__isnull", True),
                                ("state", "proposed"),
                            ),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("reversed_at__isnull", True),
                                ("state__in", ["rejected", "posted"]),
                            ),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("reversed_at__isnull", False),
                                ("state", "reversed"),
                            ),
                            _connector="OR",
                        ),
                        name="write_off_state_has_times",
                    ),
                ],
            },
        ),
        *install(
            "billing/sql/billing_write_offs.v1.sql",
            "billing/sql/billing_allocation_fits.v5.sql",
        ),
    ]
