"""New charges are checked in one pass over them."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0042_document_files")]

    operations = install("billing/sql/billing_charge_checks.v1.sql")
