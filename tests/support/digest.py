"""A digest of every row there is, to prove that what was refused has changed nothing."""

from django.apps import apps
from django.db import connection


def ledger_digest() -> str:
    """Return a digest of every row of every table of ours, but for use of tokens and sessions."""
    models = [
        model
        for model in apps.get_models()
        if model._meta.app_label in {"tenants", "metering", "quotas", "billing", "auth"}  # noqa: SLF001 - Documented model meta.
        and model._meta.managed  # noqa: SLF001
        and model._meta.model_name != "personsession"  # noqa: SLF001
    ]
    parts = []
    for model in models:
        table = model._meta.db_table  # noqa: SLF001
        is_used = any(field.name == "last_used_at" for field in model._meta.fields)  # noqa: SLF001
        row = "(to_jsonb(t) - 'last_used_at')" if is_used else "t"
        # Sums of hashes need no order of the rows.
        hashes = f"count(*) || ' ' || coalesce(sum(hashtextextended({row}::text, 0)), 0)"
        parts.append(f"SELECT '{table}' || {hashes} AS part FROM {table} t")  # noqa: S608 - Names of our own tables.
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT md5(string_agg(part, '' ORDER BY part)) FROM ({' UNION ALL '.join(parts)}) x"  # noqa: S608 - As above.
        )
        (digest,) = cursor.fetchone()
    return str(digest)
