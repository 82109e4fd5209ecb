"""A digest of every row there is, to prove that what was refused has changed nothing."""

from django.apps import apps
from django.db import connection


def ledger_digest() -> str:
    """Return a digest of every row of every table of ours, but for use of tokens and sessions."""
    tables = sorted(
        model._meta.db_table  # noqa: SLF001 - Documented model meta.
        for model in apps.get_models()
        if model._meta.app_label in {"tenants", "metering", "quotas", "billing", "auth"}  # noqa: SLF001
        and model._meta.managed  # noqa: SLF001
        and model._meta.model_name != "personsession"  # noqa: SLF001
    )
    parts = (
        f"SELECT '{table}' || coalesce(string_agg(md5((to_jsonb(t) - 'last_used_at')::text), ''"  # noqa: S608 - Names of our own tables.
        f" ORDER BY md5((to_jsonb(t) - 'last_used_at')::text)), '') AS part FROM {table} t"
        for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT md5(string_agg(part, '' ORDER BY part)) FROM ({' UNION ALL '.join(parts)}) x"  # noqa: S608 - As above.
        )
        (digest,) = cursor.fetchone()
    return str(digest)
