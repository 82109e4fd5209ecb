"""The committed list of the database's objects is that of a migrated database.

    GOLDEN=write .venv/bin/pytest tests/config/test_database_objects.py

writes it anew after a migration that changes one of them.
"""

import os

import pytest
from django.db import connection

from config.verification import OBJECTS
from tenants.selectors.database_objects import object_lines

IS_WRITING = os.environ.get("GOLDEN") == "write"


@pytest.mark.django_db
def test_the_list_is_what_the_migrations_make() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions('2026-10-01Z', 2)")
    lines = sorted(object_lines())
    if IS_WRITING:
        OBJECTS.write_text("\n".join(lines) + "\n", encoding="utf-8")

    assert OBJECTS.read_text(encoding="utf-8").splitlines() == lines
