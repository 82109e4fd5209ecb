"""Files of final documents, as they were rendered first."""

import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers
from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0041_countries_and_languages")]

    operations = [
        migrations.CreateModel(
            name="DocumentFile",
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
                ("kind", models.CharField(choices=[("pdf", "PDF")], max_length=16)),
                ("content", models.BinaryField()),
                ("sha256", models.CharField(max_length=64)),
                ("rendered_at", models.DateTimeField()),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="files",
                        to="billing.invoice",
                    ),
                ),
            ],
            options={
                "ordering": ["document", "kind"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("document", "kind"), name="document_file_unique"
                    )
                ],
            },
        ),
        *install("billing/sql/billing_document_files.v1.sql"),
    ]
