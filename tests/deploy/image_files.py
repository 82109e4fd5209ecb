"""Which files of the checkout the image holds, by .dockerignore and the Dockerfile's COPY lines."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.deploy.files import ROOT, dockerfile

APP = PurePosixPath("/opt/gpu-ledger/app")
"""Where the image keeps the service."""


def copies() -> list[tuple[str, PurePosixPath]]:
    """Return source and target of every COPY out of the checkout."""
    lines = [rest.split() for name, rest in dockerfile() if name == "COPY"]
    return [(line[0], PurePosixPath(line[1])) for line in lines if not line[0].startswith("--")]


def app_files() -> dict[str, Path]:
    """Return the service's files: the path below its folder in the image -> the checkout's file."""
    files = {}
    for source, target in copies():
        if target.is_relative_to(APP):
            for name in _sent(source):
                inside = target.relative_to(APP) / PurePosixPath(name).relative_to(source)
                files[str(inside)] = ROOT / name
    return files


def _sent(source: str) -> Iterator[str]:
    """Yield the files of one source that reach the builder."""
    top = ROOT / source
    paths = [top] if top.is_file() else sorted(top.rglob("*"))
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and not is_ignored(name):
            yield name


def ignore_lines() -> list[str]:
    """Return the lines of .dockerignore that say something."""
    lines = map(str.strip, (ROOT / ".dockerignore").read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_ignored(name: str) -> bool:
    """Whether the builder never gets a file: the last line that is about it, or a folder of it."""
    places = [name, *(str(parent) for parent in PurePosixPath(name).parents)]
    ignored = False
    for line in ignore_lines():
        pattern = _pattern(line.removeprefix("!"))
        if any(pattern.fullmatch(place) for place in places):
            ignored = not line.startswith("!")
    return ignored


def _pattern(glob: str) -> re.Pattern[str]:
    """Return a line as the builder reads it: `*` ends at a slash, `**/` is any folders or none."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.strip("/"))
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meant.get(part, re.escape(part)) for part in parts))
