"""Landed migrations and SQL files never change, import nothing that may, and run each file once.

    GOLDEN=write .venv/bin/pytest tests/architecture/test_migrations.py

records new files in landed.txt; it never writes another digest for a recorded one.
"""

import ast
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tenants.migrations._sql import REVERSE
from tests.architecture.source import APPS, ROOT, Module, modules, tracked_files

LANDED = Path(__file__).with_name("landed.txt")
IS_WRITING = os.environ.get("GOLDEN") == "write"
FILES = re.compile(rf"({'|'.join(APPS)})/(migrations/(?!__init__)\w+\.py|sql/\w+\.v\d+\.sql)")
FROZEN = {"pathlib.Path", "tenants.migrations._sql.install", "tenants.domain.identifiers.new_id"}
"""What migrations may import besides Django and psycopg; it does in ten years what it does now."""
FROZEN_MODULES = {"tenants.domain.identifiers"}
"""Modules that Django imports by their whole name, to use the callables above."""


def landed_files() -> dict[str, str]:
    """Return the digest of each migration and SQL file."""
    return {
        name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
        for name in tracked_files()
        if FILES.fullmatch(name)
    }


def differences(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return a sentence for each file that is not as it was recorded."""
    return [
        f"{name} was landed and has been removed: write a migration that undoes it."
        for name in sorted(recorded.keys() - found.keys())
    ] + [
        f"{name} is new: record it with GOLDEN=write."
        if name not in recorded
        else f"{name} was landed and has been edited: restore it, and write a new version."
        for name, digest in sorted(found.items())
        if recorded.get(name) != digest
    ]


def migrations() -> list[Module]:
    """Return the modules of all migrations."""
    return [module for module in modules() if FILES.fullmatch(module.path)]


def foreign_imports(module: Module) -> list[str]:
    """Return what a migration imports, or uses of an import, that may change."""
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {
                f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                for alias in node.names
                if alias.asname or alias.name not in FROZEN_MODULES
            }
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            names |= {f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Name) and node.id == "__import__":
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("tenants.domain."):
            names |= {ast.unparse(node)} - FROZEN_MODULES
    return [
        f"{module.path}: {name}"
        for name in sorted(names)
        if name.split(".")[0] not in {"django", "psycopg"} and name not in FROZEN
    ]


def installed(texts: Iterable[ast.Module]) -> Counter[str]:
    """Count how often migrations install each SQL file."""
    return Counter(
        argument.value
        for tree in texts
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )


def test_landed_migrations_and_sql_files_stay_as_they_are() -> None:
    lines = LANDED.read_text(encoding="utf-8").splitlines()
    recorded = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = landed_files()
    if IS_WRITING:
        recorded = found | recorded
        lines = [f"{digest}  {name}\n" for name, digest in sorted(recorded.items())]
        LANDED.write_text("".join(lines), encoding="utf-8")

    assert differences(recorded, found) == []


def test_migrations_import_nothing_that_may_change() -> None:
    assert [line for module in migrations() for line in foreign_imports(module)] == []


def test_each_sql_file_is_installed_by_one_migration() -> None:
    files = [name for name in landed_files() if name.endswith(".sql")]

    assert installed(module.tree for module in migrations()) == dict.fromkeys(files, 1)


def without_reverse(texts: Mapping[str, str]) -> list[str]:
    """Return the SQL files that do not say how to undo what they do."""
    return [name for name, text in sorted(texts.items()) if not text.partition(REVERSE)[2].strip()]


def test_each_sql_file_says_how_to_undo_it() -> None:
    names = [name for name in landed_files() if name.endswith(".sql")]

    assert (
        without_reverse({name: (ROOT / name).read_text(encoding="utf-8") for name in names}) == []
    )


def test_planted_offences_are_found() -> None:
    recorded = {"a/sql/f.v1.sql": "1", "a/sql/g.v1.sql": "2", "a/sql/h.v1.sql": "3"}
    found = {"a/sql/f.v1.sql": "1", "a/sql/g.v1.sql": "4", "a/sql/g.v2.sql": "5"}
    text = (
        "import tenants.domain.identifiers\n"
        "import tenants.domain.identifiers as names\n"
        "from django.db import migrations\n"
        "from tenants.domain import identifiers\n"
        "from ..domain.identifiers import new_id\n"
        "late = __import__('quotas')\n"
        "from quotas.services.limits import open_limit\n"
        "key = tenants.domain.identifiers.old_id\n"
        'operations = [*install("a/sql/f.v1.sql", "a/sql/g.v1.sql"), *install("a/sql/g.v1.sql")]\n'
    )
    planted = Module("a/migrations/0001_x.py", text)

    assert differences(recorded, found) == [
        "a/sql/h.v1.sql was landed and has been removed: write a migration that undoes it.",
        "a/sql/g.v1.sql was landed and has been edited: restore it, and write a new version.",
        "a/sql/g.v2.sql is new: record it with GOLDEN=write.",
    ]
    assert foreign_imports(planted) == [
        "a/migrations/0001_x.py: ..domain.identifiers.new_id",
        "a/migrations/0001_x.py: __import__",
        "a/migrations/0001_x.py: quotas.services.limits.open_limit",
        "a/migrations/0001_x.py: tenants.domain.identifiers",
        "a/migrations/0001_x.py: tenants.domain.identifiers as names",
        "a/migrations/0001_x.py: tenants.domain.identifiers.old_id",
    ]
    assert without_reverse({"f": "SELECT 1;\n-- reverse\nSELECT 2;\n", "g": "SELECT 1;\n"}) == ["g"]
    assert installed([planted.tree]) == {"a/sql/f.v1.sql": 1, "a/sql/g.v1.sql": 2}
