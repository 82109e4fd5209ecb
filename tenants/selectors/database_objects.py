"""Objects of the database that keep the ledgers, compared with a list committed with the code.

They are functions of every schema, columns and their defaults, triggers, constraints, views, rules,
row security, privileges, partitions and sequences. The owner of the tables can replace a function,
change rows and put it back; what is left replaced, dropped, granted, detached or set back is a
difference.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from django.db import connection

from tenants.domain.verification import Check, CheckedBatch, Cursor

PARTITION: Final = re.compile(r"_\d{4}_\d{2}(?!\d)")
"""How the name of a month's partition ends."""
MONTH: Final = "_YYYY_MM"
RUNTIME_ROLE: Final = "gpu_ledger_runtime"
"""What the service's own role is a member of."""

_FUNCTIONS: Final = """
SELECT 'function', p.oid::regprocedure::text,
       encode(sha256(convert_to(pg_get_functiondef(p.oid), 'UTF8')), 'hex')
  FROM pg_proc p
 WHERE p.pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
   AND p.pronamespace::regnamespace::text !~ '^pg_temp_' AND p.prokind IN ('f', 'p')
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass
                      AND d.objid = p.oid AND d.deptype = 'e')
"""
_TRIGGERS: Final = """
SELECT c.relname, c.relispartition,
       concat_ws(' ', 'trigger', c.relname, t.tgname, t.tgenabled, pg_get_triggerdef(t.oid))
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace
"""
_CONSTRAINTS: Final = """
SELECT 'constraint', c.relname, o.conname,
       regexp_replace(pg_get_constraintdef(o.oid), '\\n\\s*', ' ', 'g')
  FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
 WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
   AND o.contype IN ('c', 'f', 'p', 'u', 'x') AND o.conparentid = 0
UNION ALL
SELECT 'index', c.relname, i.relname, pg_get_indexdef(x.indexrelid)
  FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
 WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
   AND x.indisunique AND x.indisvalid
   AND NOT EXISTS (SELECT FROM pg_constraint o
                    WHERE o.conindid = x.indexrelid AND o.contype IN ('p', 'u', 'x'))
"""
"""PostgreSQL refuses to drop those of one partition, and to attach a table without them."""
_STRUCTURE: Final = """
WITH digested AS (
  SELECT 'view' AS kind, c.relname, c.relkind::text AS name,
         pg_get_viewdef(c.oid) || coalesce(c.reloptions::text, '') AS definition
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('v', 'm')
  UNION ALL
  SELECT 'columns', c.relname, 'all', string_agg(
           concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull), ', '
           ORDER BY a.attname)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
     AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
   GROUP BY c.relname
  UNION ALL
  SELECT 'rule', c.relname, r.rulename, r.ev_enabled::text || pg_get_ruledef(r.oid)
    FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
   WHERE c.relnamespace = 'public'::regnamespace AND r.rulename <> '_RETURN'
  UNION ALL
  SELECT 'policy', c.relname, p.polname, concat_ws(' ', p.polcmd, p.polpermissive, p.polroles,
         pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid))
    FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
   WHERE c.relnamespace = 'public'::regnamespace
  UNION ALL
  SELECT 'event_trigger', 'database', e.evtname,
         concat_ws(' ', e.evtevent, e.evtenabled, e.evtfoid::regproc)
    FROM pg_event_trigger e)
SELECT kind, relname, name, encode(sha256(convert_to(definition, 'UTF8')), 'hex') FROM digested
UNION ALL
SELECT 'row_security', c.relname, 'enabled', c.relforcerowsecurity::text
  FROM pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND (c.relrowsecurity OR c.relforcerowsecurity)
UNION ALL
SELECT 'default', c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)
  FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid
  JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
 WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
UNION ALL
SELECT 'foreign_key_trigger', c.relname, o.conname, t.tgenabled::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
  JOIN pg_constraint o ON o.oid = t.tgconstraint
 WHERE t.tgisinternal AND t.tgenabled <> 'O' AND c.relnamespace = 'public'::regnamespace
"""
"""Of partitions there are none, but for defaults, which are those of their table."""
_PRIVILEGES: Final = """
WITH service AS (
  SELECT r.oid FROM pg_roles r
   WHERE pg_has_role(r.oid, %(runtime)s, 'MEMBER') AND NOT r.rolsuper
     AND NOT EXISTS (SELECT FROM pg_class c
                      WHERE c.relowner = r.oid AND c.relnamespace = 'public'::regnamespace)),
grantees AS (
  SELECT g.oid, g.rolname FROM pg_roles g
   WHERE EXISTS (SELECT FROM service WHERE pg_has_role(service.oid, g.oid, 'MEMBER'))
  UNION ALL
  SELECT 0, 'PUBLIC'),
objects AS (
  SELECT 'pg_class'::regclass AS catalogue, oid, relname::text AS name, relispartition,
         relowner AS owner, relacl AS acl
    FROM pg_class
   WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  UNION ALL
  SELECT 'pg_class'::regclass, c.oid, c.relname || '(' || a.attname || ')', c.relispartition,
         c.relowner, a.attacl
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
   WHERE c.relnamespace = 'public'::regnamespace AND NOT a.attisdropped
  UNION ALL
  SELECT 'pg_proc'::regclass, oid, oid::regprocedure::text, false,
         proowner, coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
SELECT o.name, o.relispartition,
       concat_ws(' ', 'privilege', o.name, g.rolname,
                 a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END)
  FROM objects o CROSS JOIN aclexplode(o.acl) a JOIN grantees g ON g.oid = a.grantee
 WHERE a.grantee <> o.owner
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.catalogue AND d.objid = o.oid
                      AND d.deptype = 'e')
"""
"""Of all roles that the service's role can act as, and of PUBLIC; `*` marks a grant option."""
_PARTITIONS: Final = """
SELECT c.relname, c.relispartition FROM pg_class c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname ~ '_\\d{4}_\\d{2}$'
"""
_SEQUENCES: Final = """
SELECT c.oid::regclass::text, quote_ident(a.attname),
       pg_get_serial_sequence(c.oid::regclass::text, a.attname)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition AND a.attidentity <> '' AND NOT a.attisdropped
 ORDER BY 1
"""


def object_lines() -> frozenset[str]:
    """Return a line for each object, the same in every month.

    What a partition has stands once for all months; `objects_check` asks each month for it.
    """
    plain, partitions = _read()
    return frozenset(plain.union(*partitions.values()))


def objects_check(expected: Collection[str]) -> Check:
    """Return a check of the objects and partitions against committed lines."""

    def check(_: Cursor) -> CheckedBatch:
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
        return CheckedBatch(len(plain) + sum(map(len, partitions.values())), tuple(found))

    return check


def check_sequences(_: Cursor) -> CheckedBatch:
    """Compare every sequence with the highest number that its table has."""
    found, sequences = [], _rows(_SEQUENCES)
    for table, column, sequence in sequences:
        # The row first: a number is taken before its row is written, so the sequence is ahead then.
        ((highest,),) = _rows(f"SELECT coalesce(max({column}), 0) FROM {table}")  # noqa: S608 - Quoted by the database.
        ((last,),) = _rows(f"SELECT coalesce(pg_sequence_last_value('{sequence}'), 0)")
        if highest > last:
            found.append(f"The sequence of {table} is at {last}, behind its row {highest}.")
    return CheckedBatch(len(sequences), tuple(found))


def _read() -> tuple[set[str], dict[str, set[str]]]:
    """Return the lines of what is there once, and by partition what is there each month."""
    plain = {
        " ".join(row) for query in (_FUNCTIONS, _CONSTRAINTS, _STRUCTURE) for row in _rows(query)
    }
    partitions: dict[str, set[str]] = {
        name: set() for name, is_attached in _rows(_PARTITIONS) if is_attached
    }
    of_tables = _rows(_TRIGGERS) + _rows(_PRIVILEGES, {"runtime": RUNTIME_ROLE})
    for table, is_partition, line in of_tables:
        if is_partition:
            partitions.setdefault(table, set()).add(PARTITION.sub(MONTH, line))
        elif not PARTITION.search(table):  # A detached one is found by that.
            plain.add(line)
    return plain, partitions


def _of_table(monthly: Collection[str], partition: str) -> set[str]:
    table = PARTITION.sub(MONTH, partition)
    return {line for line in monthly if line.split(" ", 2)[1] == table}


def _differences(prefix: str, *, wanted: set[str], there: set[str]) -> list[str]:
    """Return missing and foreign objects.

    An expression is printed with other parentheses and casts after a restore, so some objects have
    two lines, of which one is there.
    """
    kept = {_name(line) for line in wanted & there}
    missing = {_name(line) for line in wanted - there} - kept
    return [
        *(f"{prefix}{name} is missing or was replaced." for name in sorted(missing)),
        *(f"{prefix}{_name(line)} is not ours." for line in sorted(there - wanted)),
    ]


def _name(line: str) -> str:
    """Return the object's name in a line, without digest or definition."""
    kind, _, rest = line.partition(" ")
    if kind == "function":
        return f"The {kind} {rest.rpartition(' ')[0]}"
    if kind == "columns":
        return f"The list of columns of {rest.partition(' ')[0]}, with types and NOT NULL,"
    if kind == "privilege":
        on, grantee, privilege = rest.rsplit(" ", 2)
        return f"The {kind} {privilege} of {grantee} on {on}"
    table, name, *_ = rest.split(" ")
    return f"The {kind} {name} on {table}"


def _rows(query: str, values: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())
