"""Run in a copy of the image: import its modules with nothing but the image's distributions.

The arguments are the locked requirements, and modules by name besides all that there are. Prints a
JSON object: module -> why it cannot be imported.
"""

import importlib
import json
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType


class RefuseOthers(MetaPathFinder):
    """Refuses packages of distributions that the image does not install."""

    def __init__(self, locked: str) -> None:
        """Take the text of the locked requirements."""
        self._locked = {
            _spelled(name) for name in re.findall(r"^([\w.-]+)==", locked, re.MULTILINE)
        }
        self._owners = packages_distributions()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - Python's own signature.
        target: ModuleType | None = None,  # noqa: ARG002 - As above.
    ) -> ModuleSpec | None:
        """Refuse, or leave it to Python's own finders."""
        owners = self._owners.get(fullname.partition(".")[0], [])
        if owners and not self._locked & set(map(_spelled, owners)):
            raise ModuleNotFoundError(f"The image has no {fullname}", name=fullname)
        return None


def _spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_below(folder: Path) -> list[str]:
    """Return every module below a folder."""
    parts = [path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")]
    return sorted(".".join(p[:-1] if p[-1] == "__init__" else p) for p in parts)


def main(locked: str, others: list[str]) -> None:
    """Import, and print what cannot be."""
    folder = Path.cwd()
    sys.path[0] = str(folder)
    sys.meta_path.insert(0, RefuseOthers(Path(locked).read_text("utf-8")))
    importlib.import_module("django").setup()
    failed = {}
    for name in [*others, *names_below(folder)]:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - All are reported.
            failed[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(failed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
