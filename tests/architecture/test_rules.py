"""Rules of the architecture: services, refusals, protocols and migrations."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from django.apps import apps

from tenants.domain.errors import DomainError
from tests.architecture.source import APPS, Function, Module, headrooms, modules, product

IMPLEMENTATIONS_MIN = 2
WITHOUT_ACTOR = {
    "metering.services.collection.checking.checked": "Judges what was seen; writes nothing.",
    "metering.services.collection.composition.compose_window": "Computes rows; writes nothing.",
    "metering.services.collection.windows.ensure_partitions": "Makes tables, not facts.",
    "metering.services.corrections.rechecks.make_due_rechecks": "As open_due_windows below.",
    "metering.services.collection.windows.open_due_windows": "The clock opens hours.",
    "tenants.services.notifications.retention.in_batches": "Its callers name the actor.",
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
    """Whether a function opens a transaction: then it is a deed and tells who did it."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr == "atomic" for inner in ast.walk(node)
    )


def test_every_deed_takes_its_actor_and_its_time_by_name() -> None:
    wrong = []
    for module in headrooms("services"):
        for node in public_functions(module):
            named = {argument.arg for argument in node.args.kwonlyargs}
            given = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
            if dotted(module, node) in WITHOUT_ACTOR or given & STEP_ARGUMENTS:
                continue
            if writes(node) and not {"actor", "at"} <= named:
                wrong.append(dotted(module, node))

    assert not wrong, "\n" + "\n".join(wrong)


def test_an_actor_and_a_time_are_never_positional() -> None:
    positional = [
        dotted(module, node)
        for module in headrooms("services")
        for node in public_functions(module)
        if {argument.arg for argument in node.args.args} & {"actor", "at"}
    ]

    assert not positional, "\n" + "\n".join(positional)


def test_the_list_of_exceptions_names_only_what_is_there() -> None:
    there = {dotted(m, node) for m in headrooms("services") for node in public_functions(m)}

    assert set(WITHOUT_ACTOR) <= there


def test_no_rule_reads_the_clock() -> None:
    clocks = [
        f"{module.path}:{node.lineno}"
        for module in headrooms("domain", "services", "selectors", "models")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"now", "utcnow", "today"}
    ]

    assert not clocks, "\n" + "\n".join(clocks)


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


def test_every_refusal_has_a_code_of_its_own() -> None:
    codes = Counter(refusal.code for refusal in refusals())

    assert [code for code, count in codes.items() if count > 1] == []
    assert [code for code in codes if not re.fullmatch(r"[a-z][a-z0-9_]*", code)] == []


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


def test_every_protocol_has_two_implementations() -> None:
    known = {node.name: node for module in modules() for node in module.classes()}
    lonely = []
    for module in product():
        for protocol in filter(is_protocol, module.classes()):
            wanted = members(protocol, {})
            fitting = [
                node.name
                for node in known.values()
                if not is_protocol(node) and wanted <= members(node, known)
            ]
            if len(fitting) < IMPLEMENTATIONS_MIN:
                lonely.append(f"{module.path} {protocol.name}: {fitting}")

    assert not lonely, "\n" + "\n".join(lonely)


def test_every_migration_is_named_for_what_it_does_and_can_go_back() -> None:
    for app in APPS:
        package = import_module(f"{apps.get_app_config(app).name}.migrations")
        for found in walk_packages(package.__path__):
            if found.name.startswith("_"):
                continue
            assert re.fullmatch(r"\d{4}_[a-z][a-z_0-9]+", found.name), found.name
            assert "_auto_" not in found.name, found.name
            migration = import_module(f"{app}.migrations.{found.name}").Migration
            for operation in migration.operations:
                assert operation.reversible, f"{app}.{found.name}"


PUBLISHER = "tenants/services/wakeups.py"


def is_task(node: ast.AST) -> bool:
    """Whether a decorator makes a Celery task."""
    called = node.func if isinstance(node, ast.Call) else node
    return getattr(called, "id", getattr(called, "attr", "")) in {"shared_task", "task"}


def test_no_message_stands_for_a_row() -> None:
    found = [
        (module.path, node, decorator)
        for module in product()
        for node in module.functions()
        for decorator in node.decorator_list
        if is_task(decorator)
    ]
    wrong = [
        f"{path}:{node.lineno} {node.name}"
        for path, node, decorator in found
        if ast.unparse(node.args)
        or not isinstance(decorator, ast.Call)
        or {word.arg: ast.unparse(word.value) for word in decorator.keywords}["base"] != "WakeUp"
    ]

    assert len(found) > 10
    assert not wrong, "\n" + "\n".join(wrong)


def test_messages_are_published_in_one_module() -> None:
    wrong = [
        f"{module.path}:{node.lineno} {ast.unparse(node)}"
        for module in product()
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

    assert not wrong, "\n" + "\n".join(wrong)


def test_who_catches_a_clusters_refusal_has_it_audited() -> None:
    """Adapters refuse credentials and addresses at use; `audited_use` is the one that notes it."""
    others = {
        "metering/management/commands/watch_cluster.py",  # Its loop notes it.
        "tenants/services/notifications/deliveries.py",  # Its receivers are no clusters.
        "tenants/services/audit.py",
    }
    caught = {
        module.path: "audited_use(" in module.text
        for module in product()
        if module.headroom not in {"adapters", "domain", "protocols"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and "SourceUnavailableError" in ast.unparse(node.type)
    }

    assert others < set(caught)
    assert sorted(path for path, is_audited in caught.items() if not is_audited) == sorted(
        others - {"tenants/services/audit.py"}
    )
