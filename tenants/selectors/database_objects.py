"""Objects of the database that keep the ledgers: functions, triggers, partitions and sequences.

The owner of the tables can replace a function, change rows and put it back; what is left replaced,
detached or set back is found here, by comparison with a list that is committed with the code.
"""

import re
from collections.abc import Collection
from typing import Any, Final

from django.db import connection

from tenants.domain.verification import Batch, Check, Cursor

PARTITION: Final = re.compile(r"_\d{4}_\d{2}(?!\d)")
"""How the name of a month's partition ends."""
MONTH: Final = "_YYYY_MM"

_FUNCTIONS: Final = """
SELECT 'function', p.oid::regprocedure::text,
       encode(sha256(convert_to(pg_get_functiondef(p.oid), 'UTF8')), 'hex')
  FROM pg_proc p
 WHERE p.pronamespace = 'public'::regnamespace AND p.prokind IN ('f', 'p')
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass
                      AND d.objid = p.oid AND d.deptype = 'e')
"""
_TRIGGERS: Final = """
SELECT c.relname, c.relispartition, t.tgname, t.tgenabled::text, pg_get_triggerdef(t.oid)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace
"""
_PARTITIONS: Final = """
SELECT c.relname, c.relispartition FROM pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname ~ '_\\d{4}_\\d{2}$'
"""
_SEQUENCES: Final = """
SELECT c.oid::regclass::text, quote_ident(a.attname),
       pg_sequence_last_value(pg_get_serial_sequence(c.oid::regclass::text, a.attname)::regclass)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition AND a.attidentity <> '' AND NOT a.attisdropped
 ORDER BY 1
"""


def object_lines() -> frozenset[str]:
    """Return a line for each function and trigger, the same in every month.

    A trigger of a partition stands once for all months; `check_objects` asks each month for it.
    """
    plain, partitions = _read()
    return frozenset(plain.union(*partitions.values()))


def objects_check(expected: Collection[str]) -> Check:
    """Return a check of functions, triggers and partitions against committed lines."""

    def check(_: Cursor) -> Batch:
        plain, partitions = _read()
        monthly = {line for line in expected if MONTH in line}
        found = _differences("", wanted=set(expected) - monthly, there=plain)
        for name, there in sorted(partitions.items()):
            found += _differences(f"{name}: ", wanted=_of_table(monthly, name), there=there)
        found += [
            f"{name} is detached from its table. Attach it, and find out who did it."
            for name, is_attached in _rows(_PARTITIONS)
            if not is_attached
        ]
        return Batch(len(plain) + sum(map(len, partitions.values())), tuple(found))

    return check


def check_sequences(_: Cursor) -> Batch:
    """Compare every sequence with the highest number that its table has."""
    found, sequences = [], _rows(_SEQUENCES)
    for table, column, last in sequences:
        ((highest,),) = _rows(f"SELECT coalesce(max({column}), 0) FROM {table}")  # noqa: S608 - Quoted by the database.
        if highest > (last or 0):
            found.append(f"The sequence of {table} is at {last or 0}, behind its row {highest}.")
    return Batch(len(sequences), tuple(found))


def _read() -> tuple[set[str], dict[str, set[str]]]:
    """Return the lines of what is there once, and by partition what is there each month."""
    plain = {" ".join(row) for row in _rows(_FUNCTIONS)}
    partitions: dict[str, set[str]] = {
        name: set() for name, is_attached in _rows(_PARTITIONS) if is_attached
    }
    for table, is_partition, name, enabled, definition in _rows(_TRIGGERS):
        line = f"trigger {table} {name} {enabled} {definition}"
        if is_partition:
            partitions.setdefault(table, set()).add(PARTITION.sub(MONTH, line))
        elif not PARTITION.search(table):  # A detached one is found by that.
            plain.add(line)
    return plain, partitions


def _of_table(monthly: Collection[str], partition: str) -> set[str]:
    table = PARTITION.sub(MONTH, partition)
    return {line for line in monthly if line.split(" ", 2)[1] == table}


def _differences(prefix: str, *, wanted: set[str], there: set[str]) -> list[str]:
    return [
        *(f"{prefix}{_name(line)} is missing or was replaced." for line in sorted(wanted - there)),
        *(f"{prefix}{_name(line)} is not ours." for line in sorted(there - wanted)),
    ]


def _name(line: str) -> str:
    """Return what a line is about: the first words of it, without digest or definition."""
    kind, _, rest = line.partition(" ")
    if kind == "function":
        return f"The {kind} {rest.rpartition(' ')[0]}"
    table, name, *_ = rest.split(" ")
    return f"The {kind} {name} on {table}"


def _rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
