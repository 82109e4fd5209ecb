"""A month of charges that is archived gets no new partition, and can be restored."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("billing", "0055_known_codes"), ("tenants", "0007_archived_months")]

    operations = install(
        "billing/sql/billing_guard_charge_partition.v1.sql",
        "billing/sql/billing_ensure_charge_partitions.v2.sql",
    )
