"""Programs without a wheel: from PATH, or from Debian's package unpacked without root.

If neither works, the error gives the reason in one line.
"""

import fcntl
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_TIMEOUT_SECONDS = 180
UNPACK_TIMEOUT_SECONDS = 60
KEYRINGS = "/usr/share/keyrings"
"""Debian's own is there, with the keys of its later suites."""


@dataclass(frozen=True)
class Package:
    """What to look for.

    Attributes:
        title: What people call it.
        name: Debian's package.
        programs: Programs it must contain; the first is searched on PATH.
        folder: Where they are inside the package.
        has_libraries: Whether they need shared libraries that may not be installed. These are
            unpacked beside the programs: run them with LD_LIBRARY_PATH set to their folder.
        also: Further packages with some of the programs.
        suite: The suite of Debian that has this version, other than the machine's own; such a
            program is not searched on PATH. "" for the machine's own.
        kept: The folder of `tools` it is unpacked into; "" for the package's name.
    """

    title: str
    name: str
    programs: tuple[str, ...]
    folder: str = "usr/bin"
    has_libraries: bool = False
    also: tuple[str, ...] = ()
    suite: str = ""
    kept: str = ""


@dataclass(frozen=True)
class Programs:
    """What was found.

    Attributes:
        folder: Holds the programs; None when there are none.
        reason: Why there are none, in one line; "" when there are.
    """

    folder: Path | None
    reason: str = ""


def find_programs(package: Package, tools: Path, *, is_fetched: bool = True) -> Programs:
    """Return programs from PATH, or those in `tools`, fetching them at first.

    Args:
        package: Which.
        tools: A folder of the checkout for programs that are fetched, such as `.tools`.
        is_fetched: Whether to fetch them when they are nowhere.
    """
    kept = tools / (package.kept or package.name)
    on_path = None if package.suite else shutil.which(package.programs[0])
    for folder in ([Path(on_path).parent] if on_path else []) + [kept]:
        if _is_complete(package, folder):
            return Programs(folder)
    if not is_fetched:
        return Programs(None, f"{package.title} is not on PATH.")
    tools.mkdir(parents=True, exist_ok=True)
    # Processes of one run need the same program at once: the first fetches it, the others wait.
    turn = os.open(tools, os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return Programs(kept) if _is_complete(package, kept) else _fetch(package, kept)
    finally:
        os.close(turn)


def _is_complete(package: Package, folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in package.programs)


def _fetch(package: Package, kept: Path) -> Programs:
    """Unpack Debian's package into a temporary folder and move it into place in one step."""
    partial = kept.with_name(f"{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        programs = _unpack(package, partial)
        shutil.rmtree(kept, ignore_errors=True)
        programs.rename(kept)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        return _missing(package, words[-1] if words else "apt-get download failed")
    except (OSError, subprocess.TimeoutExpired) as error:
        return _missing(package, str(error))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Programs(kept)


def _unpack(package: Package, partial: Path) -> Path:
    """Return the folder of the programs, unpacked: nothing is installed, so no root, no daemon."""
    options = _options_of(package.suite, partial) if package.suite else ()
    archive = _unpack_one(package.name, partial, options=options)
    for name in package.also:
        _unpack_one(name, partial, options=options)
    programs = partial / "root" / package.folder
    if not _is_complete(package, programs):
        raise FileNotFoundError("the package holds no program for this machine")
    if package.has_libraries:
        for name in _needed_libraries(archive):
            _unpack_one(name, partial, options=options)
        for library in sorted((partial / "root").glob("**/lib/*/lib*.so.*")):
            library.rename(programs / library.name)
    return programs


def _options_of(suite: str, partial: Path) -> tuple[str, ...]:
    """Return apt-get's options for another suite of the machine's own mirror.

    Its lists are kept beside the packages, so that nothing of the machine changes.
    """
    fields = "$(ORIGIN) $(REPO_URI)"
    command = ("apt-get", "indextargets", "--format", fields, "Created-By: Packages")
    found = _run(*command, cwd=partial, timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS)
    mirrors = [line.split()[1] for line in found.splitlines() if line.startswith("Debian ")]
    if not mirrors:
        raise FileNotFoundError("apt-get knows no mirror of Debian")
    lists = partial.absolute() / "apt"
    (lists / "lists").mkdir(parents=True)
    (lists / "sources.list").write_text(f"deb {mirrors[0]} {suite} main\n", "utf-8")
    settings = {
        "Dir::Etc::sourcelist": lists / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::trustedparts": KEYRINGS,
        "Dir::State::lists": lists / "lists",
        "Dir::Cache": lists,
        "APT::Sandbox::User": "",
    }
    options = tuple(
        word for name, value in settings.items() for word in ("--option", f"{name}={value}")
    )
    update = ("apt-get", *options, "update", "--error-on=any")
    _run(*update, cwd=partial, timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS)
    return options


def _unpack_one(name: str, partial: Path, *, options: tuple[str, ...] = ()) -> Path:
    """Fetch one package, unpack it below `root`, and return the archive."""
    _run(
        "apt-get", *options, "download", name, cwd=partial, timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS
    )
    archives = sorted(partial.glob(f"{name}_*.deb"))
    if not archives:
        raise FileNotFoundError("apt-get download brought no package")
    unpacked = ("dpkg", "-x", str(archives[0]), "root")
    _run(*unpacked, cwd=partial, timeout_seconds=UNPACK_TIMEOUT_SECONDS)
    return archives[0]


def _needed_libraries(archive: Path) -> list[str]:
    """Return the packages of shared libraries that a package depends on, but for libc's own."""
    depends = _run(
        *("dpkg-deb", "--field", str(archive), "Depends"),
        cwd=archive.parent,
        timeout_seconds=UNPACK_TIMEOUT_SECONDS,
    )
    names = re.findall(r"(?:^|,)\s*(lib[a-z0-9.+-]+)", depends)
    return sorted(set(names) - {"libc6"})


def _run(name: str, *arguments: str, cwd: Path, timeout_seconds: int) -> str:
    """Run one of Debian's programs and return what it printed."""
    program = shutil.which(name)
    if program is None:
        raise FileNotFoundError(f"it is not on PATH, and without {name} it cannot be fetched")
    done = subprocess.run(  # noqa: S603 - Debian's own programs with fixed arguments.
        [program, *arguments], cwd=cwd, check=True, capture_output=True, timeout=timeout_seconds
    )
    return done.stdout.decode(errors="replace")


def _missing(package: Package, reason: str) -> Programs:
    line = " ".join(reason.split())
    return Programs(None, f"{package.title} is not here: {line}.")
