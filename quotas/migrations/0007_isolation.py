import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers

WORK_KINDS = [
    ("training", "Training"),
    ("development", "Development"),
    ("inference", "Inference"),
]
MODES = [
    ("dedicated", "Whole GPU of a dedicated node"),
    ("whole", "Whole GPU"),
    ("mig", "MIG instance"),
    ("mps", "MPS"),
    ("time-slicing", "Time-slicing"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0006_requests"),
        ("tenants", "0004_clusters_that_admit"),
    ]

    operations = [
        migrations.CreateModel(
            name="IsolationPolicy",
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
                    "work_kind",
                    models.CharField(
                        blank=True, choices=WORK_KINDS, db_default="", default="", max_length=16
                    ),
                ),
                (
                    "modes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(choices=MODES, max_length=16),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("may_meet_tenants", models.BooleanField(db_default=False, default=False)),
                (
                    "default_kind",
                    models.CharField(
                        blank=True, choices=WORK_KINDS, db_default="", default="", max_length=16
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="isolation_policies",
                        to="tenants.organization",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="isolation_policies",
                        to="tenants.project",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "isolation policies",
                "ordering": ["organization__slug", "project__slug", "work_kind"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=["organization", "project", "work_kind"],
                        name="isolation_policy_unique",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            modes__contained_by=[
                                "dedicated",
                                "whole",
                                "mig",
                                "mps",
                                "time-slicing",
                            ]
                        ),
                        name="isolation_policy_modes_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(work_kind="") | models.Q(default_kind=""),
                        name="isolation_policy_kind_of_any",
                        violation_error_message=(
                            "Only a policy for any kind of work has a default kind."
                        ),
                    ),
                ],
            },
        ),
    ]
