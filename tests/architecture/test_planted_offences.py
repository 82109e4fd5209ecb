"""Each rule finds an offence planted against it, and nothing where the offence is taken away."""

from collections.abc import Callable

import pytest
from django.db.migrations import RunSQL

from tenants.domain.errors import DomainError
from tests.architecture.source import Module
from tests.architecture.test_queries import without_figure
from tests.architecture.test_rules import (
    clocks,
    foreign_imports,
    lonely_protocols,
    messages_for_rows,
    publishers,
    unsigned_writes,
    wrong_codes,
    wrong_migration,
)
from tests.architecture.test_structure import circles, crowded, hard_words, repeated
from tests.architecture.test_tidy import (
    floats,
    long_files,
    long_functions,
    queries,
    softer_words,
)

SERVICE = "billing/services/x.py"
WRITE = "def close(*, actor, at):\n    with transaction.atomic(): ..."
TASK = "@shared_task(base=WakeUp)\ndef sweep(): ..."
Check = Callable[[list[Module]], list[str]]


@pytest.mark.parametrize(
    ("check", "path", "sound", "planted"),
    [
        (long_functions, SERVICE, "def f():" + "\n    g()" * 59, "def f():" + "\n    g()" * 60),
        (long_files, SERVICE, "x = 1\n" * 400, "x = 1\n" * 401),
        (floats, "billing/domain/money.py", 'rate = Decimal("0.1")', "rate = 0.1"),
        (floats, "billing/models/price.py", "DecimalField()", "models.FloatField()"),
        (queries, "billing/api/x.py", "list_invoices()", "Invoice.objects.all()"),
        (unsigned_writes, SERVICE, WRITE, WRITE.replace("actor, at", "actor")),
        (unsigned_writes, SERVICE, WRITE, WRITE.replace("*, ", "")),
        (clocks, SERVICE, "close(at=at)", "close(at=timezone.now())"),
        (messages_for_rows, "billing/tasks.py", TASK, TASK.replace("()", "(key)")),
        (messages_for_rows, "billing/tasks.py", TASK, TASK.replace("base=WakeUp", "")),
        (publishers, SERVICE, "sweep.apply_async()", "sweep.delay(row.id)"),
        (
            foreign_imports,
            "billing/migrations/0002_x.py",
            "from django.db import migrations\nfrom tenants.migrations._ledger import refuse",
            "from billing.services.pricing.prices import publish_price",
        ),
    ],
)
def test_a_planted_offence_is_found(check: Check, path: str, sound: str, planted: str) -> None:
    assert check([Module(path, sound)]) == []
    assert len(check([Module(path, planted)])) == 1


def test_a_folder_of_sixteen_modules_is_found() -> None:
    many = [f"billing/domain/m{number}.py" for number in range(16)]

    assert crowded([*many[:15], "billing/domain/__init__.py"]) == {}
    assert crowded(many) == {"billing/domain": 16}


def test_two_files_that_import_each_other_are_found() -> None:
    one = Module("a/b.py", "from a import c")
    other = Module("a/c.py", "from a.b import x")

    assert circles({"a/b.py": one.tree, "a/c.py": Module("a/c.py", "import json").tree}) == []
    assert circles({"a/b.py": one.tree, "a/c.py": other.tree}) == [["a/b.py", "a/c.py"]]


def test_a_class_name_of_two_classes_is_found() -> None:
    line, total = Module("a/b.py", "class Line: ..."), Module("a/c.py", "class Total: ...")

    assert repeated({"a/b.py": line.tree, "a/c.py": total.tree}) == {}
    assert repeated({"a/b.py": line.tree, "a/d.py": line.tree}) == {"Line": ["a/b.py", "a/d.py"]}


def test_a_hard_word_is_found_as_a_part_of_a_name() -> None:
    assert hard_words(["def retold(): 'A doorway.'"]) == {}
    assert hard_words(["def take_told(): 'Doors.'", "class ToldSight: ..."]) == {
        "told": 2,
        "doors": 1,
        "sight": 1,
    }


def test_a_softer_word_is_counted_in_prose_and_not_in_code() -> None:
    planted = Module("a/b.py", '"""Nobody looks for it."""\n\nclaim = "who"  # See the rooms.\n')

    found = {word: rate for word, rate in softer_words([planted]).items() if rate}
    assert found.keys() == {"nobody", "look", "room"}


def test_a_protocol_with_one_implementation_is_found() -> None:
    protocol = Module("billing/protocols.py", "class Store(Protocol):\n    def keep(self): ...")
    classes = [
        Module("billing/adapters/x.py", f"class {name}:\n    def keep(self): ...")
        for name in ("Bucket", "Folder")
    ]

    assert lonely_protocols([protocol], [protocol, *classes]) == []
    assert lonely_protocols([protocol], [protocol, classes[0]]) == [
        "billing/protocols.py Store: ['Bucket']"
    ]


def test_a_code_of_two_refusals_is_found() -> None:
    period = type("PeriodClosedError", (DomainError,), {"code": "closed", "__module__": "planted"})
    window = type("WindowSealedError", (DomainError,), {"code": "closed", "__module__": "planted"})

    assert wrong_codes([period]) == []
    assert wrong_codes([period, window]) == ["closed"]


def test_a_migration_without_a_name_or_a_way_back_is_found() -> None:
    there, back = "CREATE TABLE x ()", "DROP TABLE x"

    assert wrong_migration("0002_windows", [RunSQL(there, back)]) == []
    assert len(wrong_migration("0002_windows", [RunSQL(there)])) == 1
    assert len(wrong_migration("0002_auto_20261123", [RunSQL(there, back)])) == 1


def test_a_list_without_a_golden_figure_is_found() -> None:
    assert without_figure(["charges"], {"charges": 4}) == []
    assert without_figure(["charges", "invoices"], {"charges": 4}) == ["invoices"]
