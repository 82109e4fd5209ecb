"""Archived months: which partitions were detached, and the digest of the manifest of each."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0006_known_codes"),
    ]

    operations = [
        migrations.CreateModel(
            name="ArchivedMonth",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "table_name",
                    models.CharField(
                        choices=[("usage", "Usage"), ("charges", "Charges")], max_length=16
                    ),
                ),
                ("label", models.CharField(max_length=7)),
                ("begin_at", models.DateTimeField()),
                ("end_at", models.DateTimeField()),
                ("row_count", models.BigIntegerField()),
                ("sums", models.JSONField()),
                ("manifest_sha256", models.CharField(max_length=64)),
                ("windows_sha256", models.CharField(max_length=64)),
                ("location", models.TextField()),
                ("detached_at", models.DateTimeField()),
                ("detached_by", models.CharField(max_length=200)),
                ("reason", models.TextField()),
                ("restored_at", models.DateTimeField(blank=True, null=True)),
                ("restored_by", models.CharField(blank=True, default="", max_length=200)),
                ("restore_reason", models.TextField(blank=True, default="")),
            ],
            options={
                "ordering": ["-begin_at", "table_name", "-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("restored_at__isnull", True)),
                        fields=("table_name", "begin_at"),
                        name="archived_month_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("begin_at__lt", models.F("end_at"))),
                        name="archived_month_has_hours",
                    ),
                ],
            },
        ),
        *install("tenants/sql/tenants_archivedmonth.v1.sql"),
    ]
