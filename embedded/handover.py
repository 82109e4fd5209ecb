"""The running stack's addresses, kept in a file so that commands of the same checkout find it.

`manage.py tick` in a second terminal then works on the demo's database. The file holds passwords:
it is readable by its owner only, and goes when the stack stops.
"""

import json
from collections.abc import Mapping
from pathlib import Path

NAME = "environment.json"


def write_handover(state: Path, environment: Mapping[str, str]) -> None:
    """Write the addresses of the stack's servers for other commands of the checkout."""
    partial = state / f"{NAME}.partial"
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(dict(environment), indent=2) + "\n", encoding="utf-8")
    partial.replace(state / NAME)


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
    """Take the file away; nothing happens when there is none."""
    (state / NAME).unlink(missing_ok=True)
