from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE, drop_refusals, refuse

# Each table of moves is in quotas/domain: no move leaves these states, and none leads back.
OVER = {
    "quotas_quotarequest": "OLD.state <> 'submitted' AND OLD.* IS DISTINCT FROM NEW.*",
    "quotas_requeststep": "OLD.outcome NOT IN ('waiting', 'open') AND OLD.* IS DISTINCT FROM NEW.*",
    "quotas_quotaloan": "(OLD.state NOT IN ('proposed', 'active')"
    " AND OLD.* IS DISTINCT FROM NEW.*)"
    " OR (OLD.state = 'active' AND NEW.state = 'proposed')",
}


def _stays(table: str, when: str) -> str:
    kept = "decisions are kept"
    return (
        refuse(table, operation="UPDATE", reason="what was decided stays", when=when)
        + refuse(table, operation="DELETE", reason=kept)
        + refuse(table, operation="TRUNCATE", reason=kept)
        + f"REVOKE DELETE, TRUNCATE ON {table} FROM {RUNTIME_ROLE};\n"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0018_pinned_trigger"),
        # Has made `ledger_refuse()`.
        ("tenants", "0002_audit_ledger"),
    ]

    operations = [
        migrations.RunSQL(
            "".join(_stays(table, when) for table, when in OVER.items()),
            "".join(
                drop_refusals(table) + f"GRANT DELETE ON {table} TO {RUNTIME_ROLE};\n"
                for table in OVER
            ),
        ),
    ]
