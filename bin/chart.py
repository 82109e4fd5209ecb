"""The Helm chart, and the plain manifests that are rendered from it: bin/chart.py write|check.

`deploy/kubernetes` has one file for each template, rendered with `deploy/kubernetes/values.yaml`.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "deploy" / "helm" / "gpu-ledger"
MANIFESTS: Final = ROOT / "deploy" / "kubernetes"
VALUES: Final = MANIFESTS / "values.yaml"
NAME: Final = "gpu-ledger"
HEAD: Final = "# Rendered from deploy/helm/gpu-ledger by `make manifests`: do not edit.\n"
SOURCE: Final = re.compile(r"^# Source: gpu-ledger/templates/(.+)\n", re.MULTILINE)
HOOK: Final = re.compile(r"^ {4}(#.*|helm\.sh/hook.*)\n", re.MULTILINE)
EMPTY: Final = re.compile(r"^  annotations:\n(?!    )", re.MULTILINE)
NOT_PLAIN: Final = frozenset({"rules.yaml", "dashboards.yaml", "accounts.yaml"})
"""Rules and boards are files already; accounts are for a cluster that the service itself is in."""
FIRST: Final = 10
"""How many lines of a difference are shown."""


@cache
def program() -> str:
    """Return the path of Helm.

    Raises:
        FileNotFoundError: There is none; the text says why.
    """
    prepared = subprocess.run(  # noqa: S603 - Our own program.
        [str(ROOT / "bin" / "prepare"), "helm"], capture_output=True, text=True, check=False
    )
    if prepared.returncode:
        raise FileNotFoundError(prepared.stderr.strip().splitlines()[-1])
    return prepared.stdout.strip()


def helm(*arguments: str) -> str:
    """Run Helm; return what it printed.

    Raises:
        FileNotFoundError: There is no Helm; the text says why.
        CalledProcessError: It refused.
    """
    done = subprocess.run(  # noqa: S603 - The locked program.
        [program(), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def render(*arguments: str, release: str = NAME, namespace: str = NAME) -> str:
    """Return the chart's objects with values of `arguments`, in Helm's order."""
    return helm("template", release, str(CHART), "--namespace", namespace, *arguments)


def lint(*arguments: str) -> str:
    """Hold the chart against Helm's own rules and its schema of values; return the report."""
    return helm("lint", str(CHART), "--strict", "--quiet", *arguments)


def files_of(rendered: str) -> dict[str, str]:
    """Return the plain manifests: each template's objects under its comment, without hooks."""
    parts: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        source = SOURCE.search(document)
        if source is not None and source[1] not in NOT_PLAIN:
            parts.setdefault(source[1], []).append(SOURCE.sub("", document))
    return {name: plain(name, documents) for name, documents in sorted(parts.items())}


def plain(name: str, documents: list[str]) -> str:
    """Return the text of one plain manifest."""
    comment = re.match(
        r"(?:\{\{.*\n)*((?:#.*\n)+)", (CHART / "templates" / name).read_text("utf-8")
    )
    head = comment[1] if comment else ""
    bodies = [
        EMPTY.sub("", _without_hooks(document.replace(head, ""))).strip() for document in documents
    ]
    lines = "\n---\n".join(filter(None, bodies)).splitlines()
    return HEAD + head + "".join(f"{line.rstrip()}\n" for line in lines if line.strip())


def _without_hooks(document: str) -> str:
    """Leave out what only Helm reads, with the comment above it."""
    return HOOK.sub("", document) if "helm.sh/hook" in document else document


def problems() -> list[str]:
    """Return what is wrong with the chart, and which manifests are not as it renders them."""
    found = []
    for values in ((), ("--values", str(VALUES))):
        try:
            lint(*values)
        except subprocess.CalledProcessError as error:
            found.append(f"helm lint: {(error.stdout + error.stderr).strip()}")
    wanted = files_of(render("--values", str(VALUES)))
    for name in sorted(
        {*wanted, *(path.name for path in MANIFESTS.glob("*.yaml"))} - {VALUES.name}
    ):
        path = MANIFESTS / name
        if (path.read_text("utf-8") if path.exists() else None) != wanted.get(name):
            found.append(f"deploy/kubernetes/{name} is not as `make manifests` writes it")
    return found


def main(arguments: list[str]) -> int:
    """Write or check; print what is not as it should be."""
    if arguments not in (["write"], ["check"]):
        sys.stderr.write(str(__doc__))
        return 2
    try:
        if arguments == ["write"]:
            for name, text in files_of(render("--values", str(VALUES))).items():
                (MANIFESTS / name).write_text(text, "utf-8")
            return 0
        found = problems()
    except FileNotFoundError as error:
        sys.stdout.write(f"Left out: the Helm chart ({error})\n")
        return 1 if os.environ.get("CI") == "true" else 0
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
