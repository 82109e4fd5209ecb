"""Pods with ResourceClaims are kept with their owners, for whom these count."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0005_unseen_index"), ("tenants", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="AdmittedPod",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pod_uid", models.CharField(max_length=64)),
                (
                    "owner",
                    models.CharField(blank=True, db_default="", default="", max_length=150),
                ),
                ("admitted_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
            ],
            options={"ordering": ["-admitted_at", "id"]},
        ),
        migrations.AddIndex(
            model_name="admittedpod",
            index=models.Index(fields=["admitted_at"], name="admitted_pod_by_time"),
        ),
        migrations.AddConstraint(
            model_name="admittedpod",
            constraint=models.UniqueConstraint(
                fields=("cluster", "pod_uid"), name="admitted_pod_unique"
            ),
        ),
    ]
