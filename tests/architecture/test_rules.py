"""Rules of the architecture: services, refusals, protocols and migrations."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages

from django.apps import apps
from django.db.migrations.operations.base import Operation

from tenants.domain.errors import DomainError
from tests.architecture.source import APPS, Function, Module, in_layers, modules, product
from tests.architecture.test_tidy import assert_none

IMPLEMENTATIONS_MIN = 2
PUBLISHER = "tenants/services/wakeups.py"
FROZEN = {"tenants.domain.identifiers"}
"""What migrations may name: it makes the keys that it made when they landed."""
WITHOUT_ACTOR = {
    "billing.services.showback.add_up_changed_days": "Adds charges up; changes no fact.",
    "metering.services.collection.composition.compose_window": "Computes rows; writes nothing.",
    "metering.services.collection.windows.ensure_partitions": "Makes tables, not facts.",
    "metering.services.corrections.rechecks.make_due_rechecks": "As open_due_windows below.",
    "metering.services.collection.windows.open_due_windows": "The clock opens hours.",
    "tenants.services.retention.in_batches": "Its callers name the actor.",
}
"""Public functions of services that need no actor, each with the reason."""
STEP_ARGUMENTS = {"claimed", "claim", "lease", "window", "worker"}
"""A step inside a service that holds one of these writes in its caller's name."""


def public_functions(module: Module) -> Iterator[Function]:
    for node in module.tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def dotted(module: Module, node: Function) -> str:
    return f"{module.path.removesuffix('.py').replace('/', '.')}.{node.name}"


def writes(node: Function) -> bool:
    """Whether a function opens a transaction: then it says who did it and when."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr == "atomic" for inner in ast.walk(node)
    )


def unsigned_writes(found: Iterable[Module]) -> list[str]:
    """Return services that write and take no actor or no time by name."""
    wrong = []
    for module in in_layers(found, "services"):
        for node in public_functions(module):
            named = {argument.arg for argument in node.args.kwonlyargs}
            positional = {argument.arg for argument in node.args.args}
            if positional & {"actor", "at"}:
                wrong.append(dotted(module, node))
            elif dotted(module, node) in WITHOUT_ACTOR or (positional | named) & STEP_ARGUMENTS:
                continue
            elif writes(node) and not {"actor", "at"} <= named:
                wrong.append(dotted(module, node))
    return wrong


def clocks(found: Iterable[Module]) -> list[str]:
    """Return where a rule reads the clock instead of taking `at`."""
    return [
        f"{module.path}:{node.lineno}"
        for module in in_layers(found, "domain", "services", "selectors", "models")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"now", "utcnow", "today"}
    ]


def test_every_write_takes_its_actor_and_its_time_by_name() -> None:
    assert_none(unsigned_writes(product()))


def test_the_list_of_exceptions_names_only_what_is_there() -> None:
    services = in_layers(product(), "services")
    there = {dotted(module, node) for module in services for node in public_functions(module)}

    assert set(WITHOUT_ACTOR) <= there


def test_no_rule_reads_the_clock() -> None:
    assert_none(clocks(product()))


def refusals() -> set[type[DomainError]]:
    for app in APPS:
        package = import_module(f"{app}.domain")
        for found in walk_packages(package.__path__, f"{app}.domain."):
            import_module(found.name)
    seen: set[type[DomainError]] = set()
    todo = [DomainError]
    while todo:
        for child in todo.pop().__subclasses__():
            if child.__module__.split(".")[0] in APPS:
                seen.add(child)
                todo.append(child)
    return seen


def wrong_codes(refusals: Iterable[type[DomainError]]) -> list[str]:
    """Return codes that two refusals share, or that are no snake_case."""
    codes = Counter(refusal.code for refusal in refusals)
    return [
        code
        for code, count in codes.items()
        if count > 1 or not re.fullmatch(r"[a-z][a-z0-9_]*", code)
    ]


def test_every_refusal_has_a_code_of_its_own() -> None:
    assert_none(wrong_codes(refusals()))


def members(node: ast.ClassDef, known: dict[str, ast.ClassDef]) -> set[str]:
    found = {item.name for item in node.body if isinstance(item, Function)}
    found |= {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    found |= {
        target.id
        for item in node.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name in known and known[name] is not node:
            found |= members(known[name], known)
    return found


def is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def lonely_protocols(found: Iterable[Module], everywhere: Iterable[Module]) -> list[str]:
    """Return protocols that fewer than two classes implement, simulated ones included."""
    known = {node.name: node for module in everywhere for node in module.classes()}
    lonely = []
    for module in found:
        for protocol in filter(is_protocol, module.classes()):
            wanted = members(protocol, {})
            fitting = [
                node.name
                for node in known.values()
                if not is_protocol(node) and wanted <= members(node, known)
            ]
            if len(fitting) < IMPLEMENTATIONS_MIN:
                lonely.append(f"{module.path} {protocol.name}: {fitting}")
    return lonely


def test_every_protocol_has_two_implementations() -> None:
    assert_none(lonely_protocols(product(), modules()))


def wrong_migration(name: str, operations: Iterable[Operation]) -> list[str]:
    """Return what is wrong with a migration: no name of its own, or no way back."""
    is_named = re.fullmatch(r"\d{4}_[a-z][a-z_0-9]+", name) and "_auto_" not in name
    return [f"{name}: {operation}" for operation in operations if not operation.reversible] + (
        [] if is_named else [f"{name}: name it for what it does"]
    )


def test_every_migration_is_named_for_what_it_does_and_can_go_back() -> None:
    wrong = []
    for app in APPS:
        package = import_module(f"{apps.get_app_config(app).name}.migrations")
        for found in walk_packages(package.__path__):
            if not found.name.startswith("_"):
                migration = import_module(f"{app}.migrations.{found.name}").Migration
                wrong += wrong_migration(found.name, migration.operations)

    assert_none(wrong)


def foreign_imports(found: Iterable[Module]) -> list[str]:
    """Return what migrations import that may change: other than Django, SQL and frozen names."""
    return [
        f"{module.path}:{node.lineno} {name}"
        for module in found
        if module.app in APPS and module.is_migration
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
        if name.split(".")[0] not in {"django", "psycopg", *sys.stdlib_module_names}
        and name not in FROZEN
        and not re.fullmatch(rf"({module.app}|tenants)\.migrations\._\w+", name)
    ]


def test_migrations_import_nothing_that_changes() -> None:
    assert_none(foreign_imports(modules()))


def is_task(node: ast.AST) -> bool:
    """Whether a decorator makes a Celery task."""
    called = node.func if isinstance(node, ast.Call) else node
    return getattr(called, "id", getattr(called, "attr", "")) in {"shared_task", "task"}


def tasks(found: Iterable[Module]) -> list[tuple[Module, Function, ast.expr]]:
    """Return every Celery task and what makes it one."""
    return [
        (module, node, decorator)
        for module in found
        for node in module.functions()
        for decorator in node.decorator_list
        if is_task(decorator)
    ]


def messages_for_rows(found: Iterable[Module]) -> list[str]:
    """Return tasks that take arguments, or whose wake-ups are not deduplicated."""
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for module, node, decorator in tasks(found)
        if ast.unparse(node.args)
        or not isinstance(decorator, ast.Call)
        or {word.arg: ast.unparse(word.value) for word in decorator.keywords}.get("base")
        != "WakeUp"
    ]


def publishers(found: Iterable[Module]) -> list[str]:
    """Return where messages are published, but for the one module that does."""
    return [
        f"{module.path}:{node.lineno} {ast.unparse(node)}"
        for module in found
        if module.path != PUBLISHER
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            node.func.attr in {"send_task", "apply_async", "delay"}
            # A wake-up without arguments is deduplicated by its task's base class.
            and not (node.func.attr == "apply_async" and not node.args)
        )
    ]


def test_no_message_stands_for_a_row() -> None:
    assert len(tasks(product())) > 10
    assert_none(messages_for_rows(product()))


def test_messages_are_published_in_one_module() -> None:
    assert_none(publishers(product()))


def test_who_catches_a_clusters_refusal_has_it_audited() -> None:
    """Adapters refuse credentials and addresses at use; `audited_use` is the one that notes it."""
    others = {
        "metering/management/commands/watch_cluster.py",  # Its loop notes it.
        "metering/services/allocations/loop.py",  # Its leader notes it.
        "billing/services/exports/running.py",  # Its destinations are no clusters.
        "tenants/services/notifications/deliveries.py",  # Its receivers are no clusters.
        # The doctor prints it, and changes nothing.
        "config/doctor/cluster_api.py",
        "config/doctor/delivery.py",
        "config/doctor/prometheus.py",
        "config/doctor/webhook.py",
        "tenants/services/audit.py",
    }
    caught = {
        module.path: "audited_use(" in module.text
        for module in product()
        if module.layer not in {"adapters", "domain", "protocols"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and "SourceUnavailableError" in ast.unparse(node.type)
    }

    assert others < set(caught)
    assert sorted(path for path, is_audited in caught.items() if not is_audited) == sorted(
        others - {"tenants/services/audit.py"}
    )
