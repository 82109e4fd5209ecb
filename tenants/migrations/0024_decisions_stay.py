from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE, drop_refusals, refuse

CHANGE, INVITATION = "tenants_accountchange", "tenants_invitation"
ASKED = (
    "(OLD.id, OLD.kind, OLD.subject_id, OLD.value, OLD.email, OLD.username, OLD.asked_by_id,"
    " OLD.asked_at)"
)
OFFERED = (
    "(OLD.id, OLD.email, OLD.role, OLD.organization_id, OLD.project_id, OLD.digest,"
    " OLD.invited_by_id, OLD.created_at)"
)


def _moved(columns: str) -> str:
    return (
        f"{columns} IS DISTINCT FROM {columns.replace('OLD.', 'NEW.')}"
        " OR NEW.expires_at > OLD.expires_at"
    )


# What was asked for or offered is what is decided on, and it ends no later. A name that is tried at
# the moment an invitation is used may still be counted.
UPDATES = {
    CHANGE: f"{_moved(ASKED)} OR (OLD.state <> 'open' AND OLD.* IS DISTINCT FROM NEW.*)",
    INVITATION: f"{_moved(OFFERED)} OR (coalesce(OLD.accepted_at, OLD.withdrawn_at) IS NOT NULL"
    " AND to_jsonb(OLD) - 'attempts' IS DISTINCT FROM to_jsonb(NEW) - 'attempts')",
}


def _stays(table: str, when: str) -> str:
    kept = "decisions are kept"
    return (
        refuse(table, operation="UPDATE", reason="what was asked and decided stays", when=when)
        + refuse(table, operation="DELETE", reason=kept)
        + refuse(table, operation="TRUNCATE", reason=kept)
        + f"REVOKE DELETE, TRUNCATE ON {table} FROM {RUNTIME_ROLE};\n"
    )


class Migration(migrations.Migration):
    dependencies = [("tenants", "0023_accepted_verifications")]

    operations = [
        migrations.RunSQL(
            "".join(_stays(table, when) for table, when in UPDATES.items()),
            "".join(
                drop_refusals(table) + f"GRANT DELETE ON {table} TO {RUNTIME_ROLE};\n"
                for table in UPDATES
            ),
        ),
    ]
