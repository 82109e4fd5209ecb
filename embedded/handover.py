"""The running stack's addresses, kept in a file so that commands of the same checkout find it.

`manage.py tick` in a second terminal then works on the demo's database. The file holds passwords:
it is readable by its owner only, and goes when the stack stops.
"""

import json
from collections.abc import Mapping
from pathlib import Path

NAME = "environment.json"
OWNER_NAME = "database_owner_url"
"""As a deployment mounts it, for what only the owner of the tables may do."""


def write_handover(state: Path, environment: Mapping[str, str]) -> None:
    """Write the addresses of the stack's servers for other commands of the checkout."""
    _write_private(state / NAME, json.dumps(dict(environment), indent=2) + "\n")


def write_owner_url(state: Path, url: str) -> None:
    """Write how the owner of the tables signs in, which no command reads by itself."""
    _write_private(state / OWNER_NAME, f"{url}\n")


def read_handover(state: Path) -> dict[str, str]:
    """Return the variables of the running stack; empty when none runs or the file is broken."""
    try:
        found = json.loads((state / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): str(value) for name, value in found.items()}


def discard_handover(state: Path) -> None:
    """Take the files away; nothing happens when there are none."""
    for name in (NAME, OWNER_NAME):
        (state / name).unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
