"""Windows of many pods are metered in parts."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0014_usage_facts"),
    ]

    operations = [
        migrations.CreateModel(
            name="WindowDivision",
            fields=[
                (
                    "window",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="division",
                        serialize=False,
                        to="metering.meteringwindow",
                    ),
                ),
                ("as_of", models.DateTimeField()),
                ("not_before", models.DateTimeField()),
                ("failures", models.PositiveIntegerField(default=0)),
                ("catalogue_version", models.PositiveIntegerField(blank=True, null=True)),
                ("frame", models.BinaryField(null=True)),
                ("settled", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="WindowPart",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pods", models.CharField(blank=True, max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[("due", "Due"), ("leased", "Leased"), ("done", "Done")],
                        default="due",
                        max_length=16,
                    ),
                ),
                ("fence", models.BigIntegerField(default=0)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, default="", max_length=64)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("observed", models.BinaryField(null=True)),
                ("found", models.BinaryField(null=True)),
                (
                    "division",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="metering.windowdivision",
                    ),
                ),
            ],
            options={
                "ordering": ["division", "pods"],
                "constraints": [
                    models.UniqueConstraint(fields=("division", "pods"), name="window_part_unique"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_until__isnull", False), ("state", "leased")),
                            models.Q(
                                models.Q(("state", "leased"), _negated=True),
                                ("lease_until__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="window_part_lease_only_while_leased",
                    ),
                ],
            },
        ),
    ]
