"""The typed client of the API: generated from its description, and built as a wheel.

bin/client.py generate   write client/gpu_ledger_client, unless it is of the same description
bin/client.py build UV   generate, build client/dist/*.whl and install it beside this Python
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "client"
GENERATED = CLIENT / "gpu_ledger_client"
SETTINGS = CLIENT / "generator.yaml"
DESCRIPTION = ROOT / "docs" / "reference" / "openapi.yaml"
STAMP = GENERATED / ".description"
PROGRAMS = Path(sys.executable).parent


def digest() -> str:
    """Return what the generated package depends on, in short."""
    parts = (DESCRIPTION.read_bytes(), SETTINGS.read_bytes(), version("openapi-python-client"))
    return hashlib.sha256(
        b"\0".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    ).hexdigest()


def generate() -> None:
    """Write the package anew, unless it is there already; two at once wait for each other."""
    with (CLIENT / "generator.yaml").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        _generate()


def _generate() -> None:
    wanted = digest()
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    sys.stdout.write("Writing the client from docs/reference/openapi.yaml …\n")
    sys.stdout.flush()
    fresh = CLIENT / "gpu_ledger_client.new"
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(  # noqa: S603 - Our own command.
        [
            str(PROGRAMS / "openapi-python-client"),
            "generate",
            *("--path", str(DESCRIPTION), "--config", str(SETTINGS)),
            *("--meta", "none", "--output-path", str(fresh), "--fail-on-warning"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout)
    (fresh / "py.typed").touch()
    (fresh / STAMP.name).write_text(wanted, encoding="utf-8")
    shutil.rmtree(GENERATED, ignore_errors=True)
    fresh.rename(GENERATED)


def build(uv: str) -> None:
    """Build the wheel and install it, for the command `gl` in this environment."""
    generate()
    target = CLIENT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    _run(uv, "build", "--quiet", "--wheel", "--out-dir", str(target), str(CLIENT))
    (wheel,) = target.glob("*.whl")
    _run(
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--reinstall",
        "--no-deps",
        str(wheel),
    )
    sys.stdout.write(f"{wheel.relative_to(ROOT)} is built, and {PROGRAMS / 'gl'} installed.\n")


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, check=False)  # noqa: S603 - Our own command.
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    if sys.argv[1:] == ["generate"]:
        generate()
    else:
        build(sys.argv[2])
