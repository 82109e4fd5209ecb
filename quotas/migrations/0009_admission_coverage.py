"""Where the API server of each cluster asks about every pod with GPUs, as it was read there."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0008_target_repairs"),
        ("tenants", "0001_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="AdmissionCoverage",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="admission_coverage",
                        serialize=False,
                        to="tenants.cluster",
                    ),
                ),
                ("covered_at", models.DateTimeField(blank=True, null=True)),
                ("excluded", models.JSONField(blank=True, default=list)),
                ("included", models.JSONField(blank=True, null=True)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("problem", models.TextField(blank=True, default="")),
            ],
            options={"ordering": ["cluster__slug"]},
        ),
    ]
