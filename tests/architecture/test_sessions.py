"""No session state in PostgreSQL: behind a pooler each transaction may have another session.

What is forbidden here once mixed the pods of two clusters; see docs/adr/0029.
"""

import ast
import re
from collections.abc import Iterator

from config.settings.base import LOST_HOST, database
from tests.architecture.source import PRODUCT, ROOT, Module, modules, product, tracked_files
from tests.architecture.test_tidy import assert_none

BEGIN = r"(\A|;)\s*"
"""Of a statement: at the beginning of a text, or after another one."""
SQL = {
    "a temporary table outlives its transaction": (
        r"\bCREATE\s+TEMP(ORARY)?\s+TABLE\b(?![\s\S]*\bON\s+COMMIT\s+DROP\b)"
    ),
    "a setting of the session": r"\bset_config\s*\([^()]*,\s*false\s*\)",
    "an advisory lock of the session": r"\bpg_(try_)?advisory_lock(_shared)?\s*\(",
    "a statement is prepared": BEGIN + r"(PREPARE|DEALLOCATE)\s+\w+\s*(AS\b|\(|;|\Z)",
    "a cursor outlives its transaction": r"\bCURSOR\s+WITH\s+HOLD\b",
    "the session listens": BEGIN + r"LISTEN\s+\w+\s*(;|\Z)",
}
"""Never, also not in functions of the database."""
SET = {
    "a setting of the session": (
        BEGIN + r"SET\s+(?!LOCAL\b|CONSTRAINTS\b|TRANSACTION\b)\w+\s*(=|TO\b)"
    )
}
"""Migrations may: their owner reaches PostgreSQL itself."""


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every string of a module; the parts of a formatted one as one."""
    inner = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            parts = (p.value for p in node.values if isinstance(p, ast.Constant))
            yield node.lineno, "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.lineno, node.value


def found_in(module: Module, patterns: dict[str, str]) -> Iterator[str]:
    """Yield where a module's strings hold what they must not."""
    for line, text in texts(module):
        for what, pattern in patterns.items():
            if re.search(pattern, text, re.IGNORECASE):
                yield f"{module.path}:{line} {what}"


def calls_of(module: Module) -> Iterator[str]:
    """Yield calls that prepare a statement or name a cursor, so that the session keeps it."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        prepared = named.get("prepare")
        if isinstance(prepared, ast.Constant) and prepared.value is True:
            yield f"{module.path}:{node.lineno} a statement is prepared"
        threshold = named.get("prepare_threshold", ast.Constant(None))
        if not (isinstance(threshold, ast.Constant) and threshold.value is None):
            yield f"{module.path}:{node.lineno} statements are prepared"
        is_cursor = isinstance(node.func, ast.Attribute) and node.func.attr == "cursor"
        if is_cursor and (node.args or "name" in named):
            yield f"{module.path}:{node.lineno} a cursor of the server"


def test_no_statement_leaves_anything_in_its_session() -> None:
    whole = [m for m in modules() if m.app in {p.app for p in product()}]
    found = [line for module in whole for line in found_in(module, SQL)]
    found += [line for module in product() for line in found_in(module, SET)]
    found += [
        f"{name} {what}"
        for name in tracked_files()
        if name.endswith(".sql") and name.split("/")[0] in PRODUCT
        for what, pattern in SQL.items()
        if re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.IGNORECASE)
    ]

    assert_none(found)


def test_nothing_is_prepared_and_no_cursor_is_named() -> None:
    assert_none([line for module in product() for line in calls_of(module)])


def test_connections_begin_without_options_and_have_no_cursor_of_the_server() -> None:
    made = database("postgresql://ledger:secret@db:5432/ledger?sslmode=require")

    named = {"sslmode": "require", "application_name": "gpu-ledger"}
    assert made["OPTIONS"] == {**LOST_HOST, **named}
    assert "options" not in LOST_HOST
    assert made["DISABLE_SERVER_SIDE_CURSORS"] is True


def test_what_is_forbidden_is_found() -> None:
    source = """
connection.execute("CREATE TEMPORARY TABLE x (n int)")
connection.execute("CREATE TEMP TABLE x (n int) ON COMMIT DROP")
connection.execute("SELECT set_config('lock_timeout', '1s', false)")
connection.execute("SELECT set_config('lock_timeout', '1s', true)")
connection.execute("SET LOCAL lock_timeout = 1; SET statement_timeout = 0")
connection.execute("UPDATE x SET n = 1; SET LOCAL lock_timeout = 1")
connection.execute("SELECT pg_advisory_lock(1), pg_advisory_xact_lock(1)")
connection.execute(f"LISTEN {channel}x")
connection.execute("SELECT 1", prepare=True)
connection.cursor("named")
"""
    module = Module("metering/x.py", source)
    found = [*found_in(module, SQL), *found_in(module, SET), *calls_of(module)]

    lines = sorted(int(line.split(":")[1].split(" ")[0]) for line in found)
    assert lines == [2, 4, 6, 8, 9, 10, 11]
