"""Tables divided over servers by Citus, on paper: the statements, and what Citus would refuse.

The rules are those that its `create_distributed_table` applies to constraints, foreign keys,
triggers and policies; no server with Citus takes part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Protocol

COLUMN: Final = "organization_id"
"""What rows are divided by."""
DISTRIBUTED: Final = (
    "metering_usagerecord",
    "metering_usagefact",
    "metering_usageactivity",
    "metering_devicefigure",
    "metering_podallocation",
    "billing_charge",
    "billing_accruedusage",
    "billing_dailycost",
    "quotas_reservation",
    "tenants_auditentry",
)
"""Tables that grow with pods, devices or requests; the others with people and clusters."""

RULES: Final = {
    "column": "A row without an organization has no server: the column is there, and NOT NULL.",
    "unique": "A primary key, unique index or exclusion of a distributed table holds on one server"
    f" only, so it must have `{COLUMN}` in it, in an exclusion with `=`.",
    "foreign key": "Both rows must be on one server: from a distributed table to a reference table,"
    f" or to a distributed table with `{COLUMN}` at the same position of both keys; never from"
    " another table to a distributed one, and from a reference table to a local one without CASCADE"
    " or SET.",
    "trigger": "Refused on distributed and reference tables, unless"
    " `citus.enable_unsafe_triggers` is on: a trigger then runs on the server of its row and reads"
    " of distributed tables what is on that server.",
    "identity": "A server other than the first takes its numbers from a range of its own, for which"
    " a type smaller than bigint has no place.",
    "policy": "Row security of a distributed table may not have a subquery.",
    "partitions": "A reference table may not be partitioned, and no table in two levels.",
}

_TABLES: Final = """
SELECT relname FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
_REFERENCED: Final = """
SELECT DISTINCT o.confrelid::regclass::text FROM pg_constraint o
 WHERE o.contype = 'f' AND o.conparentid = 0 AND o.conrelid::regclass::text = ANY(%(distributed)s)
   AND o.confrelid::regclass::text <> ALL(%(distributed)s)
"""
_CONFLICTS: Final = """
WITH divided AS (
  SELECT c.oid, c.relname, a.attnum, a.attnotnull
    FROM pg_class c
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = %(column)s
   WHERE c.oid = ANY(%(distributed)s::regclass[]::oid[])),
copied AS (
  SELECT c.oid, c.relname, c.relkind FROM pg_class c
   WHERE c.oid = ANY(%(reference)s::regclass[]::oid[])),
keys AS (
  SELECT o.oid, o.conname, o.conrelid, o.confrelid, o.confdeltype, o.confupdtype,
         from_t.attnum AS from_column, o.conkey, o.confkey,
         from_t.oid IS NOT NULL AS is_from_divided, to_t.oid IS NOT NULL AS is_to_divided,
         from_c.oid IS NOT NULL AS is_from_copied, to_c.oid IS NOT NULL AS is_to_copied,
         array_position(o.conkey, from_t.attnum) AS from_position,
         array_position(o.confkey, to_t.attnum) AS to_position
    FROM pg_constraint o
    LEFT JOIN divided from_t ON from_t.oid = o.conrelid
    LEFT JOIN divided to_t ON to_t.oid = o.confrelid
    LEFT JOIN copied from_c ON from_c.oid = o.conrelid
    LEFT JOIN copied to_c ON to_c.oid = o.confrelid
   WHERE o.contype = 'f' AND o.conparentid = 0
     AND o.connamespace = 'public'::regnamespace)
SELECT relname, 'column', %(column)s,
       CASE WHEN attnum IS NULL THEN 'missing' ELSE 'NULL allowed' END
  FROM divided WHERE attnotnull IS NOT TRUE
UNION ALL
SELECT d.relname, 'unique', i.relname, pg_get_indexdef(x.indexrelid)
  FROM divided d JOIN pg_index x ON x.indrelid = d.oid JOIN pg_class i ON i.oid = x.indexrelid
 WHERE (x.indisunique OR x.indisexclusion)
   AND NOT EXISTS (
     SELECT FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k(attnum, position)
      WHERE k.attnum = d.attnum AND k.position <= x.indnkeyatts
        AND (x.indisunique OR EXISTS (
          SELECT FROM pg_constraint o JOIN pg_operator p ON p.oid = o.conexclop[k.position]
           WHERE o.conindid = x.indexrelid AND p.oprname = '=')))
UNION ALL
SELECT conrelid::regclass::text, 'foreign key', conname, 'to ' || confrelid::regclass
  FROM keys
 WHERE (is_to_divided AND (NOT is_from_divided OR from_position IS DISTINCT FROM to_position
                           OR from_position IS NULL))
    OR (is_from_divided AND NOT is_to_divided AND NOT is_to_copied)
    OR (is_from_divided AND from_position IS NOT NULL
        AND (confdeltype IN ('n', 'd') OR confupdtype IN ('n', 'd', 'c')))
    OR (is_from_copied AND NOT is_to_copied AND NOT is_to_divided
        AND (confdeltype NOT IN ('a', 'r') OR confupdtype NOT IN ('a', 'r')))
UNION ALL
SELECT t.tgrelid::regclass::text, 'trigger', t.tgname, t.tgfoid::regproc || '()'
  FROM pg_trigger t
 WHERE NOT t.tgisinternal AND t.tgparentid = 0
   AND t.tgrelid IN (SELECT oid FROM divided UNION ALL SELECT oid FROM copied)
UNION ALL
SELECT d.relname, 'identity', a.attname, format_type(a.atttypid, NULL)
  FROM divided d JOIN pg_attribute a ON a.attrelid = d.oid
 WHERE a.attidentity <> '' AND a.atttypid <> 'bigint'::regtype
UNION ALL
SELECT d.relname, 'policy', p.polname, 'has a subquery'
  FROM divided d JOIN pg_policy p ON p.polrelid = d.oid
 WHERE concat(p.polqual, p.polwithcheck) LIKE '%%{SUBLINK%%'
UNION ALL
SELECT relname, 'partitions', relname, 'a partitioned reference table'
  FROM copied WHERE relkind = 'p'
UNION ALL
SELECT d.relname, 'partitions', c.relname, 'a second level'
  FROM divided d JOIN pg_inherits h ON h.inhparent = d.oid JOIN pg_class c ON c.oid = h.inhrelid
 WHERE c.relkind = 'p'
 ORDER BY 2, 1, 3
"""


class CatalogueCursor(Protocol):
    """Django's cursor, or psycopg's."""

    def execute(self, query: Any, params: Any = None, /) -> Any:  # noqa: ANN401 - As theirs.
        """Run one query."""

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """Return all rows."""


@dataclass(frozen=True)
class Conflict:
    """Something in the catalogue that Citus refuses; `rule` is a key of RULES."""

    table: str
    rule: str
    name: str
    definition: str


@dataclass(frozen=True)
class Plan:
    """Where tables are: divided by organization, whole on each server, or on the first alone."""

    distributed: tuple[str, ...]
    reference: tuple[str, ...]
    local: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


def read_plan(cursor: CatalogueCursor) -> Plan:
    """Return the plan for a database.

    What a distributed table refers to becomes a reference table; the rest stays local.
    """
    values: dict[str, Any] = {"distributed": list(DISTRIBUTED), "column": COLUMN}
    reference = sorted(name for (name,) in _rows(cursor, _REFERENCED, values))
    local = {name for (name,) in _rows(cursor, _TABLES, {})} - {*DISTRIBUTED, *reference}
    conflicts = _rows(cursor, _CONFLICTS, {**values, "reference": reference})
    return Plan(
        DISTRIBUTED, tuple(reference), tuple(sorted(local)), tuple(Conflict(*c) for c in conflicts)
    )


def ddl_lines(plan: Plan) -> Iterator[str]:
    """Yield the statements that would divide the tables, once nothing conflicts."""
    for table in plan.reference:
        yield f"SELECT create_reference_table('{table}');"
    first, *others = plan.distributed
    yield f"SELECT create_distributed_table('{first}', '{COLUMN}');"
    for table in others:
        yield (
            f"SELECT create_distributed_table('{table}', '{COLUMN}', colocate_with => '{first}');"
        )


def conflict_lines(plan: Plan) -> Iterator[str]:
    """Yield the conflicts as Markdown: by rule, a row for each."""
    for rule, sentence in RULES.items():
        ours = [conflict for conflict in plan.conflicts if conflict.rule == rule]
        yield from ("", f"### {rule.capitalize()}: {len(ours)}", "", sentence)
        if ours:
            yield from ("", "| table | name | what |", "|---|---|---|")
        for table, found in groupby(ours, key=lambda conflict: conflict.table):
            for number, one in enumerate(found):
                shown = f"`{table}`" if number == 0 else ""
                yield f"| {shown} | `{one.name}` | {_shorten(one)} |"


def _shorten(conflict: Conflict) -> str:
    """Return the columns of an index, or the definition as it is."""
    if conflict.rule != "unique":
        return f"`{conflict.definition}`" if conflict.rule == "trigger" else conflict.definition
    return f"`{conflict.definition.partition(' USING ')[2]}`"


def _rows(cursor: CatalogueCursor, query: str, values: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    cursor.execute(query, values)
    return list(cursor.fetchall())
