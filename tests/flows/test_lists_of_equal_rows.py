"""Every list of the API, over 1,500 rows that differ in nothing but their key."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db.models import Model
from psycopg import sql
from rest_framework.test import APIClient

from tenants.domain.identity.roles import Role
from tests.architecture.rows import make_set
from tests.architecture.test_queries import NEEDS_RANGE, RANGE, UNPAGED, lists
from tests.support.builders import grant, make_user

COPIES_MAX = 1_500
PAGE_SIZE = 200
GROUPED = {"incidents", "invoice-parts"}
"""Their rows are groups: equal ones are one."""
PAGES_MAX = 2 * COPIES_MAX // PAGE_SIZE

COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = 'public' AND table_name = %s AND is_generated = 'NEVER'
  AND column_name <> %s ORDER BY ordinal_position
"""
UNIQUE = """
SELECT i.relname, c.conname FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.conrelid = x.indrelid
WHERE x.indrelid = %s::regclass AND (x.indisunique OR x.indisexclusion)
  AND NOT (SELECT array_agg(a.attname) @> ARRAY[%s::name] FROM pg_attribute a
           WHERE a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey))
"""
STORED = {"metering_usage": "metering_usagerecord", "metering_deviceusage": "metering_devicefigure"}
"""The table behind a view."""
NEW = {
    "metering_usagerecord": {"revision": "revision + 1000 + n"},
    "metering_devicefigure": {"id": "id + 1000 + n"},
}
"""Columns of the key beside the number, and numbers that say more than which row it is."""
KEYS = {"uuid": "gen_random_uuid()", "bigint": "1000000 + n", "integer": "1000000 + n"}


def copy_row(owner: psycopg.Connection[Any], row: Model, *, copies: int) -> sql.Composed:
    """Copy a row many times, all columns but the key; take away what forbids it.

    Returns:
        The statement that removes the copies.
    """
    options = row._meta  # noqa: SLF001 - Django's documented API of models.
    assert options.pk is not None
    assert options.pk.column is not None
    table, key = STORED.get(options.db_table, options.db_table), options.pk.column
    owner.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER ALL").format(sql.Identifier(table)))
    for index, constraint in owner.execute(UNIQUE, (table, key)).fetchall():
        owner.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE").format(
                sql.Identifier(table), sql.Identifier(constraint)
            )
            if constraint
            else sql.SQL("DROP INDEX {}").format(sql.Identifier(index))
        )
    columns = [name for (name,) in owner.execute(COLUMNS, (table, key)).fetchall()]
    kind = owner.execute(
        "SELECT data_type FROM information_schema.columns"
        " WHERE table_name = %s AND column_name = %s",
        (table, key),
    ).fetchone()
    assert kind is not None
    new = {key: KEYS[kind[0]], **NEW.get(table, {})}
    names = sql.SQL(", ").join(map(sql.Identifier, [key, *columns]))
    values = sql.SQL(", ").join(
        sql.SQL(new[name]) if name in new else sql.Identifier(name) for name in [key, *columns]
    )
    there = owner.execute(
        sql.SQL("SELECT array_agg({}::text) FROM {}").format(
            sql.Identifier(key), sql.Identifier(table)
        )
    ).fetchone()
    assert there is not None
    owner.execute(
        sql.SQL(
            "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE"
            " SELECT {values} FROM {table}, generate_series(1, {copies}) AS n"
            " WHERE {key}::text = {old}"
        ).format(
            table=sql.Identifier(table),
            key=sql.Identifier(key),
            names=names,
            values=values,
            copies=sql.Literal(copies),
            old=sql.Literal(str(row.pk)),
        )
    )
    owner.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table)))
    return sql.SQL("DELETE FROM {} WHERE {}::text <> ALL ({})").format(
        sql.Identifier(table), sql.Identifier(key), sql.Literal(there[0])
    )


def walk(client: APIClient, name: str) -> Iterator[Model]:
    """Yield the rows of a list, page after page."""
    query: dict[str, Any] | None = {
        "page_size": PAGE_SIZE,
        **(RANGE if name in NEEDS_RANGE else {}),
    }
    address: str | None = f"/api/v1/{name}/"
    for _ in range(PAGES_MAX):
        if address is None:
            return
        answer = client.get(address, query)
        assert answer.status_code == 200, (name, answer.content)
        yield from answer.renderer_context["view"].paginator.page  # type: ignore[attr-defined]
        address, query = answer.json()["next"], None
    pytest.fail(f"{name} does not end.")


@pytest.mark.parametrize("copies", [150, pytest.param(COPIES_MAX, marks=pytest.mark.soak)])
def test_every_list_shows_each_of_many_equal_rows_once(superuser_url: str, copies: int) -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)
    grant(frank, Role.FINANCE_ADMIN)
    client = APIClient()
    client.force_login(frank)
    make_set(0)
    wrong = {}

    for name in lists():
        if name in UNPAGED or name in GROUPED:
            continue
        before = list(walk(client, name))
        assert before, name
        if before[0]._meta.pk.is_relation:  # noqa: SLF001 - As above.
            continue  # One row of each organization: no two can be equal.
        with psycopg.connect(superuser_url, autocommit=True) as owner:
            remove = copy_row(owner, before[0], copies=copies)
            rows = [row.pk for row in walk(client, name)]
            owner.execute(remove)
        if len(rows) != len(before) + copies or len(set(rows)) != len(rows):
            wrong[name] = (len(rows), len(set(rows)), len(before) + copies)

    assert wrong == {}
