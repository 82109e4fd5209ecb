"""SQL that freezes ledgers, for migrations of every app.

Triggers are ENABLE ALWAYS, so that they also fire for a superuser and under
`session_replication_role = replica`; the runtime role owns no table and cannot disable them.
"""

RUNTIME_ROLE = "gpu_ledger_runtime"

REFUSE_FUNCTION = """
CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'restrict_violation',
          HINT = 'Nothing in a ledger is edited; it is corrected by a new row.';
END $$;
"""


def always(table: str, name: str, definition: str) -> str:
    """Return SQL that makes one trigger and lets nothing switch it off."""
    return (
        f"CREATE TRIGGER {name} {definition};\nALTER TABLE {table} ENABLE ALWAYS TRIGGER {name};\n"
    )


def refuse(table: str, *, operation: str, reason: str, when: str = "") -> str:
    """Return SQL that refuses one operation on a table, for every row or where `when` holds."""
    if operation == "TRUNCATE":
        definition = f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"
    else:
        definition = f"BEFORE {operation} ON {table} FOR EACH ROW"
    if when:
        definition += f" WHEN ({when})"
    name = f"{table}_refuses_{operation.lower()}"
    return always(table, name, f"{definition} EXECUTE FUNCTION ledger_refuse('{reason}')")


def append_only(table: str, *, reason: str) -> str:
    """Return SQL after which rows of a table can only be added."""
    parts = [
        refuse(table, operation=operation, reason=reason)
        for operation in ("UPDATE", "DELETE", "TRUNCATE")
    ]
    parts.append(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {RUNTIME_ROLE};\n")
    return "".join(parts)


def drop_triggers(table: str, *names: str) -> str:
    """Return SQL that takes triggers away again, for a migration's way back."""
    return "".join(f"DROP TRIGGER IF EXISTS {name} ON {table};\n" for name in names)


def drop_refusals(table: str) -> str:
    """Return SQL that takes away what `refuse` and `append_only` made."""
    return drop_triggers(
        table,
        *(
            f"{table}_refuses_{operation}"
            for operation in ("insert", "update", "delete", "truncate")
        ),
    )
