"""Device classes of clusters, with the resource names that pods may request them by."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0005_unproven_owners"), ("tenants", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="DeviceClass",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=253)),
                (
                    "extended_resource",
                    models.CharField(blank=True, db_default="", default="", max_length=317),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
            ],
            options={"ordering": ["cluster", "name"]},
        ),
        migrations.AddConstraint(
            model_name="deviceclass",
            constraint=models.UniqueConstraint(
                fields=("cluster", "name"), name="device_class_unique"
            ),
        ),
    ]
