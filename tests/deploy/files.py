"""The files of a deployment, parsed."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = ("migrate", "web", "worker", "short-worker", "beat", "renewer", "watcher")


def documents_of(text: str) -> list[Any]:
    """Return the documents of a YAML text, by the parser in C: Python's takes ten times as long."""
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def yaml_of(text: str) -> Any:  # noqa: ANN401 - As YAML is.
    """Return the one document of a YAML text."""
    (found,) = documents_of(text)
    return found


@cache
def compose() -> dict[str, Any]:
    """Return docker-compose.yml with its anchors resolved; it is read only."""
    found: dict[str, Any] = yaml_of((ROOT / "docker-compose.yml").read_text("utf-8"))
    return found


def service(name: str) -> dict[str, Any]:
    """Return one service of it."""
    found: dict[str, Any] = compose()["services"][name]
    return found


def dockerfile() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions in order, continuation lines joined."""
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.strip().split(maxsplit=1) for line in lines]
    return [(name, " ".join(rest.split())) for name, rest in pairs]


def last(instruction: str) -> str:
    """Return the value of an instruction's last occurrence."""
    return [rest for name, rest in dockerfile() if name == instruction][-1]
