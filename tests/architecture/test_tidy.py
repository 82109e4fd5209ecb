"""What linters cannot see: sizes, pure domains, thin entry points, words that do not belong."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from tests.architecture.source import (
    ROOT,
    Function,
    Module,
    in_layers,
    modules,
    product,
    tracked_files,
)

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
TEST_TO_CODE_MIN = 1.2
ENTRY_POINTS = ("api", "admin", "tasks", "management", "webhook")
SOFTER_WORDS = {
    "claim": Decimal("1.2"),
    "found": Decimal("0.5"),
    "given": Decimal("0.2"),
    "look": Decimal("0.5"),
    "nobody": Decimal("0.1"),
    "place": Decimal("0.1"),
    "room": Decimal("0.1"),
    "turn": Decimal("0.3"),
    "who": Decimal("0.3"),
    "words": Decimal("0.1"),
}
"""Per 1,000 words: plain English or Kubernetes' words as well, that the code used for much else."""
SLACK = Decimal("0.2")
# Each pattern is written so that it does not match itself.
FORBIDDEN = {
    "a path of a machine": r"(/wor[k]/|/far[m]/|/roo[t]/\.|/tm[p]/[a-z]+/[a-z])",
    "the host of a package index": r"(pyp[i]\.org|pythonhoste[d]|registry\.npmj[s]|deb\.debia[n])",
    "unfinished work": r"\b(TOD[O]|FIXM[E]|XX[X])\b",
    "an exception swallowed": r"except( Exception)?:\s*(pass)[ ]*$",
    "a test that proves nothing": r"assert Tru[e]\b|pytest\.mark\.xfai[l]",
}
BINARY = (".png", ".jpg", ".ico", ".woff2", ".pdf", ".gz", ".mo")
LOCKED = re.compile(r"^requirements/.*\.txt$")


def assert_none(found: list[str]) -> None:
    """Fail with every finding on a line of its own."""
    assert not found, "\n" + "\n".join(found)


def statement_lines(node: Function) -> int:
    """Return how long a function is, without its docstring."""
    lines = (node.end_lineno or 0) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def long_functions(found: Iterable[Module]) -> list[str]:
    """Return the functions with too many lines."""
    return [
        f"{module.path}:{node.lineno} {node.name} {statement_lines(node)}"
        for module in found
        if not module.is_migration
        for node in module.functions()
        if statement_lines(node) > FUNCTION_LINES_MAX
    ]


def long_files(found: Iterable[Module]) -> list[str]:
    """Return the files with too many lines."""
    return [
        f"{module.path} {module.lines}"
        for module in found
        if not module.is_migration and module.lines > FILE_LINES_MAX
    ]


def floats(found: Iterable[Module]) -> list[str]:
    """Return where a domain or protocol has floating point, and where a row of ours would."""
    return [
        f"{module.path}:{node.lineno}"
        for module in in_layers(found, "domain", "protocols")
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Name) and node.id == "float")
        or (isinstance(node, ast.Constant) and isinstance(node.value, float))
    ] + [
        f"{module.path}:{node.lineno}"
        for module in in_layers(found, "models", "api", "services", "selectors")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and getattr(node, "attr", getattr(node, "id", "")) in {"FloatField", "float"}
    ]


def queries(found: Iterable[Module]) -> list[str]:
    """Return where an entry point reads or writes tables itself."""
    return [
        f"{module.path}:{node.lineno}"
        for module in in_layers(found, *ENTRY_POINTS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in {"objects", "raw", "cursor"}
    ]


def softer_words(found: Iterable[Module]) -> dict[str, Decimal]:
    """Return how often docstrings and comments use a softer word, per 1,000 words."""
    words = Counter(
        word for module in found for word in re.findall(r"[a-z]+", module.prose.lower())
    )
    return {
        word: round(Decimal(1000 * (words[word] + words[word + "s"])) / words.total(), 2)
        for word in SOFTER_WORDS
    }


def test_functions_are_short() -> None:
    assert_none(long_functions(modules()))


def test_files_are_short() -> None:
    assert_none(long_files(modules()))


def test_every_module_says_what_it_is() -> None:
    silent = [
        module.path
        for module in product()
        if module.text.strip() and ast.get_docstring(module.tree) is None
    ]

    assert_none(silent)


def test_no_domain_and_no_row_knows_floating_point() -> None:
    assert_none(floats(product()))


def test_entry_points_hold_no_query() -> None:
    assert_none(queries(product()))


def test_softer_words_only_become_fewer() -> None:
    found = softer_words(product())

    more = {word: rate for word, rate in found.items() if rate > SOFTER_WORDS[word]}
    fewer = {word: rate for word, rate in found.items() if rate < SOFTER_WORDS[word] - SLACK}
    assert more == {}, "Use the words of section 4 of the style guide."
    assert fewer == {}, "Write the smaller number."


def test_no_module_is_a_drawer_for_everything() -> None:
    names = {"utils", "helpers", "common", "misc", "manager", "managers", "core"}

    drawers = [m.path for m in product() if set(re.split(r"[/.]", m.path)) & names]

    assert_none(drawers)


def test_no_word_stands_here_that_does_not_belong() -> None:
    found = []
    for name in tracked_files():
        if name.endswith(BINARY):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            found += [
                f"{name}:{number}: {what}"
                for what, pattern in FORBIDDEN.items()
                if re.search(pattern, line)
            ]

    assert_none(found)


def test_every_locked_requirement_has_its_hash() -> None:
    for name in tracked_files():
        if LOCKED.match(name):
            text = (ROOT / name).read_text(encoding="utf-8")
            pinned = re.findall(r"^[a-z0-9].*==", text, flags=re.MULTILINE)
            hashed = re.findall(
                r"^[a-z0-9].*== ?\S+[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE
            )

            assert len(pinned) == len(hashed) > 0, name
            assert "://" not in text, name


def test_there_is_more_test_than_code() -> None:
    tests = sum(module.code_lines for module in modules() if module.app == "tests")
    code = sum(module.code_lines for module in product())

    ratio = tests / code
    sys.stdout.write(f"test:code {tests}:{code} = {ratio:.2f}\n")

    assert ratio >= TEST_TO_CODE_MIN, f"test:code is {tests}:{code} = {ratio:.2f}"
