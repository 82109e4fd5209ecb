"""The repository's own source, read and parsed once for the tests that hold its shape."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
APPS = ("tenants", "metering", "quotas", "billing")
PRODUCT = (*APPS, "config")
COMMENT = re.compile(r"(?:^|  )# .*$", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One Python file.

    Attributes:
        path: Below the repository, with slashes.
        text: Its source.
    """

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return its source, parsed: that of all files takes seconds, and some need the text."""
        return ast.parse(self.text, filename=self.path)

    @property
    def app(self) -> str:
        """Return the top folder."""
        return self.path.split("/", maxsplit=1)[0]

    @property
    def is_migration(self) -> bool:
        """Whether it lies among the migrations, whose text stays once it has landed."""
        return "/migrations/" in self.path

    @property
    def layer(self) -> str:
        """Return the folder or module below the top folder, such as "services"."""
        parts = self.path.removesuffix(".py").split("/")
        return parts[1] if len(parts) > 1 else ""

    @property
    def lines(self) -> int:
        """Return how many lines it has."""
        return len(self.text.splitlines())

    @property
    def code_lines(self) -> int:
        """Return how many lines are code: not empty, not only a comment, in no docstring."""
        words = {line for first, last in self.docstrings() for line in range(first, last + 1)}
        return sum(
            1
            for number, line in enumerate(map(str.strip, self.text.splitlines()), start=1)
            if line and not line.startswith("#") and number not in words
        )

    def docstrings(self) -> Iterator[tuple[int, int]]:
        """Yield first and last line of every string that stands as a statement of its own."""
        for node in ast.walk(self.tree):
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.end_lineno or value.lineno

    @property
    def prose(self) -> str:
        """Return its docstrings and comments."""
        lines = self.text.splitlines()
        docstrings = [line for first, last in self.docstrings() for line in lines[first - 1 : last]]
        return "\n".join(docstrings + COMMENT.findall(self.text))

    def functions(self) -> Iterator[Function]:
        """Yield every function, methods too."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def classes(self) -> Iterator[ast.ClassDef]:
        """Yield every class."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                yield node


@cache
def tracked_files() -> tuple[str, ...]:
    """Return what is in the repository or would be after `git add`, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = sorted(set(listed.stdout.split("\0")) - {""})
    return tuple(name for name in names if (ROOT / name).is_file())


@cache
def modules() -> tuple[Module, ...]:
    """Return every Python file of the repository, by path."""
    found = []
    for name in tracked_files():
        if name.endswith(".py"):
            text = (ROOT / name).read_text(encoding="utf-8")
            found.append(Module(name, text))
    return tuple(found)


def product() -> tuple[Module, ...]:
    """Return the modules of the service, without migrations."""
    return tuple(m for m in modules() if m.app in PRODUCT and not m.is_migration)


def in_layers(found: Iterable[Module], *names: str) -> Iterator[Module]:
    """Yield the modules of the apps that belong to some layers."""
    return (m for m in found if m.app in APPS and m.layer in names)
