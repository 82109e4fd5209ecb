"""The structure of the packages: small folders, no import circles, unique names, plain words.

What does not follow a rule yet is listed here with its number, which may only fall.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from tests.architecture.source import ROOT, Module, modules

PACKAGES = ("tenants", "metering", "quotas", "billing", "config", "simulator", "embedded")
MODULES_MAX = 15
CROWDED: dict[str, int] = {}
"""Folders that still hold more modules than that."""
HARD_WORDS = frozenset(
    [
        "bell",
        "bells",
        "deed",
        "deeds",
        "door",
        "doors",
        "forgotten",
        "purse",
        "purses",
        "sight",
        "sights",
        "tells",
        "told",
        "undisturbed",
        "whoever",
        "wish",
        "wishes",
    ]
)
"""Words that the style guide replaces by plain ones: in no name, docstring, text or template."""
PARTS = re.compile(r"[A-Z]?[a-z]+")


def shipped() -> list[Module]:
    """Return the modules of all packages but migrations, whose text has landed."""
    return [
        module
        for module in modules()
        if module.path.split("/")[0] in PACKAGES and "/migrations/" not in module.path
    ]


def crowded(paths: Iterable[str]) -> dict[str, int]:
    """Return the folders with too many modules; one command is one file, so these stay flat."""
    folders = Counter(
        str(PurePosixPath(path).parent)
        for path in paths
        if not path.endswith("__init__.py") and "/management/commands/" not in path
    )
    return {folder: count for folder, count in folders.items() if count > MODULES_MAX}


def repeated(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return class names that stand for more than one class, with the files."""
    files = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in {"Command", "Migration"}:
                files[node.name].append(path)
    return {name: found for name, found in files.items() if len(found) > 1}


def hard_words(texts: Iterable[str]) -> Counter[str]:
    """Count hard words, also as parts of names: `take_turn_told` has "told"."""
    parts = (part.lower() for text in texts for part in PARTS.findall(text))
    return Counter(part for part in parts if part in HARD_WORDS)


def circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Return groups of files that import each other when they are loaded.

    What a package's `__init__` exports to others is no circle inside the package.
    """
    names = {path[:-3].replace("/", "."): path for path in trees if "__init__" not in path}
    targets = {
        path: {
            names[name]
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
            if name in names
        }
        for path, tree in trees.items()
        if path in names.values()
    }
    left = dict(targets)
    while free := [path for path, into in left.items() if not into & left.keys()]:
        for path in free:
            del left[path]
    # What remains imports a circle or is in one.
    while free := [
        path for path in left if not any(path in into for key, into in left.items() if key != path)
    ]:
        for path in free:
            del left[path]
    return [sorted(left)] if left else []


def test_no_folder_has_too_many_modules() -> None:
    assert crowded(module.path for module in shipped()) == CROWDED


def test_a_class_name_means_one_class() -> None:
    assert repeated({module.path: module.tree for module in shipped()}) == {}


def test_no_files_import_each_other() -> None:
    assert circles({module.path: module.tree for module in shipped()}) == []


def test_hard_words_are_nowhere() -> None:
    paths = [*ROOT.glob("*/templates/**/*.html"), *ROOT.glob("*/sql/*.sql")]

    assert hard_words([*(m.text for m in shipped()), *(p.read_text() for p in paths)]) == {}
