"""The database functions and views of tenants."""

from django.db import migrations

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_tables")]

    operations = install(
        "tenants/sql/ledger_refuse.v1.sql",
        "tenants/sql/audit_leaf_input.v1.sql",
        "tenants/sql/audit_set_leaf.v1.sql",
        "tenants/sql/audit_require_entry.v1.sql",
        "tenants/sql/verification_begin.v1.sql",
        "tenants/sql/verification_go_on.v1.sql",
        "tenants/sql/user_name_is_plain.v1.sql",
    )
