"""The database functions and views of quotas."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0001_tables"), ("quotas", "0001_tables")]

    operations = install(
        "quotas/sql/quotas_counted.v1.sql",
        "quotas/sql/quotas_lock_key.v1.sql",
        "quotas/sql/quotas_open_counters.v1.sql",
        "quotas/sql/quotas_over.v1.sql",
        "quotas/sql/quotas_settle.v1.sql",
        "quotas/sql/quotas_describe_limit.v1.sql",
        "quotas/sql/quotas_refuse.v1.sql",
        "quotas/sql/quotas_admit.v1.sql",
        "quotas/sql/quotas_wanted.v1.sql",
        "quotas/sql/quotas_sweep.v1.sql",
        "quotas/sql/quotas_drift.v1.sql",
        "quotas/sql/quotas_repair.v1.sql",
        "quotas/sql/quotas_count_months.v1.sql",
        "quotas/sql/quota_grant_name_holder.v1.sql",
        "quotas/sql/quotas_wanted_of.v1.sql",
        "quotas/sql/quotas_batches.v1.sql",
        "quotas/sql/quotas_purge_reservations.v1.sql",
        "quotas/sql/quotas_fold_refusals.v1.sql",
        "quotas/sql/quotas_may_be_stale.v1.sql",
        "quotas/sql/quotas_decide.v1.sql",
    )
